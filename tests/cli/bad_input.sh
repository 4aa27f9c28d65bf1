#!/bin/bash
# Bad input ends in one clear message, exit code 1 or 2, and damages nothing.
. "$(dirname "$0")/../lib.sh"
digits 2000
MLP=$ROOT/samples/mnist/mlp.net
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte")

# -- the command line
expect 1 "did you mean 'train'" "$NETC" trian x.net
expect 1 "did you mean --epochs" "$NETC" train "$MLP" --epoch 3
expect 1 "whole number" "$NETC" train "$MLP" --steps many
expect 1 "did you mean 'plan'" "$NETC" --emit plam "$MLP"
expect 1 "unknown precision" "$NETC" "$MLP" --precision f8
expect 0 "example" "$NETC" train --help

# -- the model
expect 1 "missing.net" "$NETC" missing.net
printf 'use nn\nmodel m(x: f32[4, 8]) {\n    y = linaer(x, 3) as fc\n    return y\n}\n' > typo.net
expect 1 "typo.net:3:" "$NETC" typo.net
holds "did you mean 'linear'"
holds "^"
printf 'model m(x: f32[4, 8]) {\n    y = x +* 3\n    return y\n}\nmodel k(x f32[4]) {\n    return x\n}\n' > syntax.net
expect 1 "syntax.net:2:" "$NETC" syntax.net
holds "syntax.net:5:"
mkfifo pipe
expect 1 "syntax.net:2:" "$NETC" train syntax.net --data x=pipe --device cpu # nobody writes into it
printf 'use "pipe"\nmodel m() { return y = 1 }\n' >uses.net
expect 1 "cannot read 'pipe'" timeout -k 1 60 "$NETC" uses.net
printf 'model m(x: f32[4, 8], y: f32[4, 9]) {\n    return z = x + y\n}\n' > shapes.net
expect 1 "f32[4, 8]" "$NETC" shapes.net
holds "f32[4, 9]"
printf 'use nn\nmodel m(x: f32[4, 8]) {\n    return y = linear(x, 3) as fc, z = linear(x, 3) as fc\n}\n' > clash.net
expect 1 "fc" "$NETC" clash.net
printf 'fn f(x) {\n    return f(x)\n}\nmodel m(x: f32[4]) {\n    return y = f(x)\n}\n' > recursion.net
expect 1 "recurs" "$NETC" recursion.net
printf 'dim n\nmodel m(x: f32[n]) {\n    return y = x * 2\n}\n' > unbound.net
expect 1 "'n'" "$NETC" unbound.net
expect 0 "" "$NETC" unbound.net -D n=4
expect 1 "" "$NETC" unbound.net -D n=-4
expect 1 "" "$NETC" unbound.net -D n=0
expect 1 "" "$NETC" unbound.net -D n=99999999999999999999
printf 'dim n = 4000000000\nmodel m(x: f32[n, n, n]) {\n    return y = x * 2\n}\n' > huge.net
expect 1 "too large" "$NETC" huge.net
for target in cpu cuda; do expect 1 "it has at most 2^40 elements" "$NETC" huge.net -D n=40000 --target $target; done
expect 1 "it has at most 2^40 elements" "$NETC" "$MLP" -D hidden=99999999999
expect 1 "did you mean" "$NETC" "$MLP" -D hiden=3
expect 1 "-D needs NAME=VALUE, not '=3'" "$NETC" "$MLP" -D =3
printf 'model m(x: f32[4]) {\n    return x\n}\n\0' > zero.net
expect 1 "zero.net is not a text file: its byte 36 is zero" "$NETC" zero.net
[ "$(wc -l < "$W/.out")" = 1 ] && pass || fail "more than one line about a file that is no text"
expect 1 "zero.net is not text" "$NETC" fmt zero.net # and nothing behind the zero is lost

for width in 1 300 5000; do # bytes that continue a character none of which began
    head -c $width /dev/zero | tr '\0' '\205' > high.net
    for verb in compile train eval run inspect check profile bench tune fmt; do expect 1 "high.net" "$NETC" $verb high.net; done
    { printf 'model m(x: f32[4]) {\n    return y = x + '; cat high.net; printf ' z\n}\n'; } > tail.net
    expect 1 "tail.net:2:" "$NETC" tail.net
    expect 1 "tail.net" "$NETC" tail.net --json
done

expect 1 "the name of a file is empty" "$NETC" fmt ""

# -- data
expect 1 "needs data" "$NETC" train "$MLP"
expect 1 "pipe is a pipe: name a file" timeout -k 1 60 "$NETC" train "$MLP" "${DATA[@]}" --steps 1 --save pipe # nobody reads it
expect 1 "nowhere" "$NETC" train "$MLP" --data image=nowhere --data label="$D/train-labels-idx1-ubyte"
expect 1 "did you mean 'image'" "$NETC" train "$MLP" --data imag="$D/train-images-idx3-ubyte"
head -c 100000 "$D/train-images-idx3-ubyte" > cut
expect 1 "cut" "$NETC" train "$MLP" --data image=cut --data label="$D/train-labels-idx1-ubyte" --device cpu
expect 1 "" "$NETC" train "$MLP" --data image="$D/train-labels-idx1-ubyte" --data label="$D/train-labels-idx1-ubyte" --device cpu
expect 1 "2000" "$NETC" train "$MLP" --data image="$D/train-images-idx3-ubyte" --data label="$D/t10k-labels-idx1-ubyte" --device cpu
{ head -c 8 "$D/train-labels-idx1-ubyte"; head -c 2000 /dev/zero | tr '\0' '\013'; } > wrong-labels
expect 1 "11" "$NETC" train "$MLP" --data image="$D/train-images-idx3-ubyte" --data label=wrong-labels --device cpu
expect 1 "fewer than a batch" "$NETC" train "$MLP" "${DATA[@]}" -D batch=5000 --device cpu

: > nothing
expect 1 "nothing is empty" "$NETC" train "$MLP" --data image=nothing --data label="$D/train-labels-idx1-ubyte" --device cpu

# Known formats are no bytes to train on, unless that is asked for.
( cd "$W" && printf '1,2\n3,4\n' > table.csv; head -c 100000 /dev/urandom > noise; { printf 'PK\3\4'; cat noise; } > images.zip; gzip -c noise > noise.gz )
printf 'use nn\nuse optim\ndim batch = 4\nmodel m(x: u8[batch, 4]) {\n    return loss = mean(linear(cast(x, f32), 1) as l)\n}\ntrain m {\n    minimize loss\n    update sgd(lr = 0.1)\n}\n' > bytes.net
for f in images.zip noise.gz; do
    expect 1 "$f " "$NETC" train bytes.net --data x=$f --device cpu --steps 1
    holds "$f:raw"
done
expect 1 "an example of the model's input is u8[4], which is 4 of the table's columns, not 2" "$NETC" run bytes.net --input x=table.csv --device cpu
expect 0 "" "$NETC" train bytes.net --data x=images.zip:raw --device cpu --steps 1 -q
expect 0 "" "$NETC" train bytes.net --data x=noise.gz:raw --device cpu --steps 1 -q

# -- checkpoints and model.bin
expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 5 --save a.safetensors -q
cp a.safetensors before
expect 1 "fc1.weight" "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 5 -D hidden=64 --resume a.safetensors
holds "fc2.weight"
head -c 3000 a.safetensors > short.safetensors
expect 1 "short.safetensors" "$NETC" eval "$MLP" "${DATA[@]}" --device cpu --weights short.safetensors
expect 0 "" "$NETC" "$MLP" -o m.bin --target cpu -q
head -c 2000 m.bin > cut.bin
expect 1 "cut.bin" "$NETC" eval cut.bin "${DATA[@]}" --device cpu
for at in 9 40 200 5000; do
    cp m.bin flip.bin
    printf '\xff\x5a' | dd of=flip.bin bs=1 seek=$at conv=notrunc status=none
    expect 1 "flip.bin" "$NETC" eval flip.bin "${DATA[@]}" --device cpu
done
( ulimit -f 64; expect 2 "a.safetensors" "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 5 --save a.safetensors -q; echo "$passed $failed" > counts )
read -r p f < counts; passed=$p failed=$f
cmp -s a.safetensors before && pass || fail "a full disk damaged the old checkpoint"
expect 1 "/proc/nowhere/a.safetensors" "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 5 --save /proc/nowhere/a.safetensors -q

# -- the environment
expect 2 "" env PATH=/nowhere CC= "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 2 --cache-dir "$W/no-cache"
holds "cc"
expect 2 "CC is '/no/such/cc'" env CC=/no/such/cc "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 2
# Names that are not UTF-8: JSON that holds them is UTF-8 all the same, and gives them back.
odd=$'odd\xff'; cp "$MLP" "$odd.net"
utf8() { iconv -f utf-8 -t utf-8 "$1" >/dev/null && pass || fail "$1 is no UTF-8"; }
expect 0 "" "$NETC" train "$odd.net" "${DATA[@]}" --device cpu --steps 2 -q --save "$odd.safetensors.index.json" --part-size 100000
utf8 "$odd.safetensors.index.json"
expect 0 "" "$NETC" eval "$odd.net" "${DATA[@]}" --device cpu --weights "$odd.safetensors.index.json"
expect 0 '"model":"odd\udcff.net"' "$NETC" profile "$odd.net" --device cpu --repeats 2 --steps 1 --json
utf8 "$W/.out"
expect 0 "" "$NETC" check "$odd.net" --device cpu --json
utf8 "$W/.out"

# A process that is killed while cc works leaves a folder, which the next one removes.
mkdir work; printf '#!/bin/sh\n: >"%s/begun"\nexec sleep 10\n' "$W" >slow; chmod +x slow
TMPDIR=$W/work CC=$W/slow "$NETC" "$MLP" -o slow.bin --target cpu --cache-dir '' >/dev/null 2>&1 & killed=$!
for ((i = 0; i < 200; i++)); do [ -e begun ] && break; sleep 0.1; done
kill -KILL $killed; wait $killed 2>/dev/null
[ "$(ls work | wc -l)" = 1 ] && pass || fail "no folder of cc: $(ls work)"
expect 0 "" env TMPDIR="$W/work" "$NETC" "$MLP" -o slow.bin --target cpu --cache-dir ''
[ -z "$(ls work)" ] && pass || fail "left behind: $(ls work)"
if ! "$NETC" doctor | grep -q '^yes cuda:'; then
    expect 2 "" "$NETC" train "$MLP" "${DATA[@]}" --device cuda:0 --steps 2
    expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --steps 2 -q
fi

# -- while running
printf 'use nn\nuse optim\ndim batch = 16\nmodel m(image: u8[batch, 28, 28], label: u8[batch] in 0..10) {\n    x = flatten(cast(image, f32))\n    y = linear(log(x - 1), 10) as fc\n    return loss = cross_entropy(y, label)\n}\ntrain m {\n    minimize loss\n    update sgd(lr = 0.1)\n}\n' > nan.net
expect 1 "nan.net:" "$NETC" train nan.net "${DATA[@]}" --device cpu --steps 3
# ... of data that are not finite, which example of which input; of parameters, which (shuffled, in two batches)
printf 'use nn\nuse optim\ndim batch = 4\nmodel m(a: f32[batch], x: f32[batch, 2]) {\n    return loss = mean(square((linear(x, 1) as fc)[:, 0] - a))\n}\ntrain m {\n    minimize loss\n    update sgd(lr = 0.1)\n}\n' > holes.net
printf '1,2,3\n2,1,2\n3,2,1\n4,4,3\n5,4,3\n6,2,inf\n7,1,1\n8,2,4\n' > holes.csv
expect 1 "the first value that is not is inf in example 5 of the data of input 'x'" "$NETC" train holes.net --data a=holes.csv:0 --data x=holes.csv:1-2 --device cpu
holds "holes.net:4:"
sed 's/    return/    param k: f32[] = inf\n    return/; s/- a/- a * k/' holes.net > infinite.net
expect 1 "the first value that is not is in parameter 'k', as the step began" "$NETC" train infinite.net --data a=holes.csv:0 --data x=holes.csv:0-1 --device cpu

# -- memory: the classes, the largest buffers with their lines, the batch that fits
printf 'use nn\nuse optim\ndim batch = 128\nmodel m(image: u8[batch, 28, 28]) {\n    h = relu(linear(flatten(cast(image, f32)), 900000) as a)\n    h = relu(linear(h, 900000) as b)\n    return loss = mean(h)\n}\ntrain m {\n    minimize loss\n    update adam(lr = 1e-3)\n}\n' > big.net
expect 2 "big.net:6" "$NETC" train big.net "${DATA[0]}" "${DATA[1]}" --device cpu --steps 1
holds "out of memory"
holds "no batch fits"

finish
