#!/bin/bash
# netc predict: every example in order, whatever the batch, the last partial one included; files whole or as they were.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
cat >m.net <<'NET'
dim batch = 16
model m(x: f32[batch, 5], y: i32[batch]) {
    param w: f32[5] = 2
    z = x * w + 1
    top = argmax(z)
    return z, low = cast(z, bf16), top, both = cast(top, i32) + y, loss = mean(z)
}
NET
cat >data.net <<'NET'
const n = 103
model data() { return x = normal([n, 5], 1), y = iota([n]) }
NET
expect 0 "" "$NETC" run data.net -o x=x.npy -o y=y.npy --device cpu
expect 0 "" "$NETC" run data.net -D n=90 -o y=few.npy --device cpu
P=("$NETC" predict m.net --data x=x.npy --device cpu)
expect 0 "" "$NETC" run m.net -D batch=103 --input x=x.npy --input y=y.npy -o z=z.npy -o low=low.npy -o top=top.npy -o both=both.npy --device cpu -q
for b in 16 103 50 1 500; do
    expect 0 "103 examples in" "${P[@]}" --data y=y.npy -D batch=$b -o z=pz.npy -o low=plow.npy -o top=ptop.npy -o both=pboth.npy
    for o in z low top both; do cmp -s $o.npy p$o.npy && pass || fail "batch $b: $o is another"; done
done
# Archives: the bytes that netc run writes, in which a type that .npy lacks is wide, too.
ALL=(-o z=%.npz -o low=%.npz -o top=%2.npz -o both=%.npz)
expect 0 "" "$NETC" run m.net -D batch=103 --input x=x.npy --input y=y.npy "${ALL[@]//%/r}" --device cpu -q
expect 0 "" "${P[@]}" --data y=y.npy "${ALL[@]//%/p}" -q
cmp -s r.npz p.npz && cmp -s r2.npz p2.npz && pass || fail "an archive of predictions is another"
if command -v python3 >/dev/null; then
    expect 0 "['z.npy', 'low.npy', 'both.npy'] None" python3 -c 'import zipfile; z = zipfile.ZipFile("p.npz"); print(z.namelist(), z.testzip())'
fi
expect 0 "" "${P[@]}" -o top=t.npy -q # needs no y
cmp -s top.npy t.npy && pass || fail "top alone is another"
expect 1 "the model has more than one output for each example; choose one: -o z=FILE.npy, -o low=FILE.npy, -o top=FILE.npy, -o both=FILE.npy; FILE.npz takes all" "${P[@]}" -o t.npy
# FILE.npz without a name takes all outputs, of run as of predict; another file the only one.
EACH=(-o z=each.npz -o low=each.npz -o top=each.npz -o both=each.npz)
expect 0 "written to all.npz" "${P[@]}" --data y=y.npy -o all.npz
grep -q '…' "$W/.out" && fail "one archive is said to be several files: $(tail -1 "$W/.out")" || pass
expect 0 "" "${P[@]}" --data y=y.npy "${EACH[@]}"
cmp -s all.npz each.npz && pass || fail "all.npz is not each output"
# One archive, however its path is written.
cp each.npz was.npz; ln -s each.npz link.npz
for v in predict run; do
    [ $v = predict ] && V=("${P[@]}" --data y=y.npy) || V=("$NETC" run m.net -D batch=103 --input x=x.npy --input y=y.npy --device cpu -q)
    rm each.npz; expect 0 "" "${V[@]}" -o z=each.npz -o low=./each.npz -o top=link.npz -o both="$PWD/each.npz"
    cmp -s was.npz each.npz && pass || fail "$v: an archive by several paths is another"
done
# A file's name may be as long as the file system takes it, whether or not it exists; what a killed process left is swept.
long=$(printf 'é%.0s' {1..125})
touch "$(printf 'é%.0s' {1..121}).netc-AbC123"
for v in predict run predict; do
    [ $v = predict ] && V=("${P[@]}") || V=("$NETC" run m.net -D batch=103 --input x=x.npy --device cpu -q)
    expect 0 "" "${V[@]}" -o "z=$long.npy" && cmp -s "$long.npy" pz.npy && pass || fail "$v: a long name"
done
[ -z "$(ls | grep netc-)" ] && pass || fail "left: $(ls | grep netc-)"
expect 1 "File name too long" "${P[@]}" -o "z=$long$long.npy"
grep -q examples "$W/.out" && fail "a name that is too long is found after the work" || pass
RUN=("$NETC" run m.net -D batch=103 --input x=x.npy --input y=y.npy --device cpu -q)
expect 0 "" "${RUN[@]}" -o all_run.npz
expect 0 "z     " "$NETC" show all_run.npz
holds "5 tensors"
expect 1 "'m' has 5 outputs: write -o NAME=t.npy for one of them, or name a file .npz for all" "${RUN[@]}" -o t.npy
expect 1 "--output needs FILE.npz or NAME=FILE, not 'low'" "${RUN[@]}" -o low
sed 's/return.*/return z, loss = mean(z)/; s/, y: i32\[batch\]//' m.net >one.net
expect 0 "" "$NETC" predict one.net --data x=x.npy --device cpu -o t.npy -q
cmp -s z.npy t.npy && pass || fail "the only output is another"
printf 'model only(x: f32[8, 3]) { return y = 2 * x }\nmodel make() { return x = uniform([8, 3], 0, 1) }\n' >only.net
expect 0 "" "$NETC" run only.net -e make --device cpu -o only_x.npy -q
expect 0 "y f32[8, 3]" "$NETC" run only.net -e only --input x=only_x.npy --device cpu
expect 0 "" "$NETC" run only.net -e only --input x=only_x.npy --device cpu -o only_y.npy -q
expect 0 "f32[8, 3]" "$NETC" show only_y.npy
# As a model.bin, for the batches that it was made for, without a compiler.
expect 0 "" "$NETC" one.net -o one.bin --target cpu --batch 7 -q # 103 = 6 * 16 + 7
expect 0 "" "$NETC" predict one.bin --data x=x.npy --device cpu -o z=t.npy -q
cmp -s z.npy t.npy && pass || fail "model.bin: another"
# One that holds its training, too; a file without a name is the only output's of its model.
cat >trained.net <<'NET'
use optim
dim batch = 16
model f(x: f32[batch, 5]) {
    param w: f32[5] = 2
    z = x * w + 1
    return loss = mean(z), z
}
train f {
    minimize loss
    update sgd(lr = 0.1)
}
NET
expect 0 "" "$NETC" trained.net -o trained.bin --target cpu -q
for f in trained.net trained.bin; do
    expect 0 "103 examples in" "$NETC" predict $f --data x=x.npy --device cpu -o t.npy
    cmp -s z.npy t.npy && pass || fail "$f: another"
done

# What cannot be, said before the work; the file stays as it was.
echo old >old.npy
expect 1 "name the file for the predictions" "${P[@]}"
expect 1 "cannot write no/such/z.npy: No such file or directory" "${P[@]}" -o z=no/such/z.npy
expect 1 "x.npy is also read as data; name another file to write" "${P[@]}" -o z=./x.npy
expect 1 "to write into a pipe, name /dev/stdout" "${P[@]}" -o z=-
expect 1 "other.net: an output is written as .npy" "${P[@]}" -o z=other.net
expect 1 "cannot open -: No such file or directory; to read from a pipe, name /dev/stdin" "$NETC" predict m.net --data x=- -o z=no.npy --device cpu
"${P[@]}" -o z=/dev/stdout 2>/dev/null | cmp -s - z.npy && pass || fail "what is written to a pipe is no array alone"
"$NETC" predict m.net --data x=/dev/stdin -o z=piped.npy -q --device cpu <x.npy
cmp -s piped.npy z.npy && pass || fail "what is read from a pipe is another"
expect 1 "pipe.npz: an archive cannot be written to a pipe" bash -c 'mkfifo pipe.npz; exec "$@"' _ "${P[@]}" -o z=pipe.npz
expect 1 "z.npz: two arrays are called 'z'" "${P[@]}" -o z=z.npz -o z=z.npz
expect 1 "./z.npy is another output's file" "${P[@]}" -o z=z.npy -o low=./z.npy
expect 1 "z.png: an output is written as .npy" "${P[@]}" -o z=z.png
expect 1 "no output 'zz'; did you mean 'z'?" "${P[@]}" -o zz=old.npy
expect 1 "is f32[]: it has no value for each example" "${P[@]}" -o loss=old.npy
expect 1 "needs data for input 'y'; give --data y=FILE" "${P[@]}" -o both=old.npy
expect 1 "the data disagree" "${P[@]}" --data y=few.npy -o both=old.npy
sed 's/f32\[batch, 5\]/f32[16, 5]/; s/, y: i32\[batch\]//; /top = /d; s/return.*/return z/; s/^dim.*//' m.net >fixed.net
expect 1 "takes no examples" "$NETC" predict fixed.net --data x=x.npy --device cpu -o z=old.npy
sed 's/    z = .*/    state s: f32[batch] = 0\n    s <- s + x[:, 0]\n    z = x * w + expand(s, 1)/' one.net >state.net
expect 1 "'s' is as large as the batch; give one that divides 103 with -D batch=N" "$NETC" predict state.net --data x=x.npy --device cpu -o old.npy
expect 1 "the last example does not fill a batch of 17, and 's'" "$NETC" predict state.net --data x=x.npy --device cpu -D batch=17 -o old.npy
expect 0 "" "$NETC" predict state.net --data x=x.npy --device cpu -D batch=1 -o s.npy -q
[ "$(cat old.npy)" = old ] && pass || fail "a failed prediction wrote"
# Ctrl-C
cat >slow.net <<'NET'
dim batch = 1
model slow(x: f32[batch, 5]) {
    s = zeros([300, 300]) + sum(x)
    loop i in 0..100 carry s { s = sin(s) }
    return y = x + sum(s)
}
NET
# (of a million examples: hours)
printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 5), }" >many.npy
truncate -s $((128 + 1000000 * 5 * 4)) many.npy
"$NETC" predict slow.net --data x=many.npy --device cpu -o old.npy >slow.log 2>&1 &
pid=$!
wait_for $pid sh -c 'ls -A | grep -q "old.npy."'
kill -INT $pid; wait $pid; code=$?
[ $code -eq 130 ] && pass || fail "Ctrl-C: exit $code: $(cat slow.log)"
[ "$(cat old.npy)" = old ] && pass || fail "a stopped prediction wrote"
[ "$(ls -A | grep -c '^old.npy\|^\.old')" = 1 ] && pass || fail "left behind: $(ls -A)"
finish
