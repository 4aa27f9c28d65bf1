#!/bin/bash
# Entries that are not run cost nothing and stop nobody: their mistakes are notes, their temporaries, kernels and
# parameters are not made. Where all entries count, they are errors.
. "$(dirname "$0")/../lib.sh"
lacks() { grep -qF -- "$1" "$W/.out" && fail "'$1' in: $(head -8 "$W/.out")" || pass; }
# 'huge' needs 160 GB of outputs and again of temporaries, 'wrong' fits width = 7 only.
cat >m.net <<'N'
use nn
use optim
dim batch = 4
const width = 7
model net(x: f32[batch, 3]) {
    h = tanh(linear(x, 5) as shared)
    return loss = mean(square(linear(h, 1) as top))
}
train net {
    minimize loss
    update adam(lr = 0.1)
}
model wrong(x: f32[batch, 3]) { return y = (linear(x, 7) as other) + ones([width]) }
model huge() {
    z = uniform([200000, 200000], 0, 1)
    return y = z, order = argsort(z)
}
model fine(x: f32[batch, 3]) { return y = linear(x, 5) as shared }
N
printf 'model make() { return x = uniform([8, 3], 0, 1), rows = uniform([64, 3], 0, 1) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x.npy -o rows=rows.npy
for d in width=7 width=9; do
    expect 0 "y f32[8, 5]" "$NETC" run -D $d m.net --entry fine --input x=x.npy
    if [ $d = width=9 ]; then
        holds "note: 'wrong' is not run here, and it has errors:"
        holds "m.net:13:"
    fi
    expect 0 "saved s.safetensors" "$NETC" train -D $d m.net --data x=rows.npy --split 0.5 --steps 3 --save s.safetensors
    expect 0 "loss" "$NETC" eval -D $d m.net --data x=rows.npy --weights s.safetensors
    expect 0 "fine" "$NETC" profile -D $d m.net --entry fine --device cpu
    expect 0 "fine" "$NETC" bench -D $d m.net --entry fine --device cpu --cache-dir ''
    expect 0 "y f32[8, 5]" "$NETC" run -D $d m.net -e fine --input x=x.npy --weights s.safetensors # as of profile and bench
    expect 0 "8 examples" "$NETC" predict -D $d m.net -e fine --data x=x.npy --weights s.safetensors -o y.npy
done
# Of other entries nothing is missed in a file of weights, nor made: 'shared' is all that 'fine' has.
expect 0 "" "$NETC" run m.net --entry wrong --input x=x.npy --weights s.safetensors --allow-missing
printf 'use nn\ndim batch = 4\nmodel fine(x: f32[batch, 3]) { return y = linear(x, 5) as shared }\n' >only.net
expect 0 "y f32[8, 5]" "$NETC" run only.net --input x=x.npy --weights s.safetensors
cp "$W/.out" only.out
expect 0 "y f32[8, 5]" "$NETC" run m.net --entry fine --input x=x.npy --weights s.safetensors
cmp -s "$W/.out" only.out && pass || fail "another result than of a file with that model alone"
# What is run, and what all entries count for, reports its mistakes.
expect 1 "m.net:13:" "$NETC" run -D width=9 m.net --entry wrong --input x=x.npy
lacks "is not run here"
expect 1 "m.net:13:" "$NETC" -D width=9 m.net
expect 1 "m.net:13:" "$NETC" inspect -D width=9 m.net
expect 1 "m.net:13:" "$NETC" check -D width=9 m.net
expect 1 "pick one with --entry: net, wrong, huge, fine" "$NETC" run -D width=9 m.net --input x=x.npy
expect 1 "did you mean 'fine'?" "$NETC" run m.net --entry fien --input x=x.npy
expect 2 "temporaries of 'huge'" "$NETC" run m.net --entry huge
# A model.bin of some entries has no others, also when it is written again and when its source is compiled again; --rebuild
# takes the source as it is. A file with one model needs no --entry.
expect 0 "note: 'wrong' is not run here" "$NETC" -D width=9 m.net -o fine.bin --entries fine --target cpu
expect 0 "" "$NETC" run only.net --input x=rows.npy --weights s.safetensors -o y=want.npy
for d in "" "-D batch=64"; do
    # shellcheck disable=SC2086
    expect 0 "" "$NETC" run fine.bin --input x=rows.npy --weights s.safetensors -o y=y.npy $d
    cmp -s y.npy want.npy && pass || fail "fine.bin $d: another result than of a file with that model alone"
done
expect 0 "entry fine" "$NETC" inspect fine.bin
[ "$(grep '^entry ' "$W/.out" | cut -d' ' -f2 | sort | tr '\n' ' ')" = "fine init " ] && pass || fail "entries: $(grep '^entry ' "$W/.out")"
expect 0 "" "$NETC" fine.bin -o again.bin --target cpu
for file in fine.bin again.bin; do
    expect 1 "$file has no entry 'net': it was written with --entries fine" "$NETC" run $file -e net --input x=x.npy # (another batch)
    expect 1 "$file has no entry 'train': it was written with --entries fine" "$NETC" train $file --data x=rows.npy --steps 1
    expect 1 "did you mean 'fine'?" "$NETC" run $file -e fien --input x=x.npy
done
expect 1 "fine.bin has no entry 'net': it was written with --entries fine" "$NETC" run fine.bin -e net --input x=x.npy -o loss=l.npy
expect 0 "kernels on cpu" "$NETC" check fine.bin --device cpu
expect 0 "loss" "$NETC" run fine.bin -e net --rebuild --input x=x.npy
expect 1 "m.net:13:" "$NETC" fine.bin --rebuild -o all.bin # as if its source were given
expect 0 "" "$NETC" m.net -o steps.bin --entries train,eval --target cpu
expect 0 "evaluated" "$NETC" train steps.bin --data x=rows.npy --split 0.5 --steps 3
expect 1 "did you mean 'fine'?" "$NETC" m.net -o no.bin --entries net,fien
expect 1 "--entries needs names" "$NETC" m.net -o no.bin --entries net,,fine
expect 1 "give it without --entries" "$NETC" m.net -o no.bin --entries net --locked
expect 1 "fine.bin has no entry 'net'" "$NETC" fine.bin -o no.bin --entries net
expect 0 ", 2 entries, " "$NETC" m.net --emit plan --entries fine
[ ! -e no.bin ] && pass || fail "a file was written"
# An input that nothing asked for needs is left out; one that the model does not have is an error.
printf 'model m(a: f32[8, 3], b: f32[8, 3]) { return s = a + b, t = 2 * a }\n' >ports.net
expect 0 "note: input 'b' of 'm' is not needed" "$NETC" run ports.net -i a=x.npy -i b=x.npy -o t=t.npy
expect 0 "" "$NETC" run -q ports.net -i a=x.npy -i b=x.npy
lacks "note"
expect 1 "has no input 'c'" "$NETC" run ports.net -i a=x.npy -i c=x.npy -o t=t.npy
# -q leaves results.
expect 0 "step 3/3 | loss" "$NETC" train -q m.net --data x=rows.npy --split 0.5 --steps 3
holds "step 3/3 evaluated | eval_loss"
[ "$(wc -l <"$W/.out")" = 2 ] && pass || fail "more than results: $(cat "$W/.out")"
finish
