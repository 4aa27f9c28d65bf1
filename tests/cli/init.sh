#!/bin/bash
# What a model begins with: listed by netc inspect --params, written by netc init.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
use nn
use optim
dim batch = 4
model net(x: f32[batch, 3]) {
    h = tanh(linear(x, 5) as first)
    param scale: f32[5] = 1
    param table: f32[2, 5] = uniform([2, 5], -2, 2)
    state seen: i64 = 0
    state slow: f32[5] = scale
    seen <- seen + 1
    slow <- 0.5 * slow + 0.5 * scale
    return loss = mean(square(h * scale + sum(table, 0) - slow)), h
}
train net {
    minimize loss
    update adam(lr = 0.1)
}
N
printf 'model make() { return x = uniform([8, 3], 0, 1) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x.npy --device cpu
expect 0 "" "$NETC" m.net -o m.bin --target cpu
for model in m.net m.bin; do
    expect 0 "m: 35 parameters in 4 tensors" "$NETC" inspect $model --params
    row() { tr -s ' ' <"$W/.out" | grep -qxF -- "$1" && pass || fail "no row '$1' of $model in: $(cat "$W/.out")"; }
    row "first.weight parameter f32[5, 3] uniform(-0.57735, 0.57735) m.net:5"
    row "scale parameter f32[5] 1 m.net:6"
    row "table parameter f32[2, 5] uniform([2, 5], -2, 2) m.net:7"
    row "seen state i64[] 0 m.net:8"
    row "slow state f32[5] scale m.net:9"
    row "first.weight.m optimizer f32[5, 3] 0 m.net:16"
    expect 0 '{"name":"first.weight","kind":"parameter","type":"f32","shape":[5,3],"begins":"uniform(-0.57735, 0.57735)","line":"m.net:5"}' \
        "$NETC" inspect $model --params --json
done
expect 1 "give only one of" "$NETC" inspect m.net --params --why
expect 1 "whole model" "$NETC" inspect m.net --params m.bin

# The file has what a run or a training under the same seed begins with.
expect 1 "name the file to write" "$NETC" init m.net
expect 0 "wrote 3.safetensors" "$NETC" init m.net -o 3.safetensors --seed 3 --device cpu
expect 0 "wrote bin.safetensors" "$NETC" init m.bin -o bin.safetensors --seed 3 --device cpu
cmp -s 3.safetensors bin.safetensors && pass || fail "a model.bin begins with other values"
expect 0 "wrote 4.safetensors" "$NETC" init m.net -o 4.safetensors --seed 4 --device cpu
cmp -s 3.safetensors 4.safetensors && fail "another seed, the same values" || pass
expect 0 "" "$NETC" run -q m.net --input x=x.npy --seed 3 --device cpu --json
cp "$W/.out" seed
expect 0 "" "$NETC" run -q m.net --input x=x.npy --weights 3.safetensors --device cpu --json
cmp -s "$W/.out" seed && pass || fail "the file is not what the run begins with"
T=("$NETC" train -q m.net --data x=x.npy --steps 3 --device cpu)
expect 0 "" "${T[@]}" --seed 3 --save begun.safetensors
expect 0 "" "${T[@]}" --resume 3.safetensors --save resumed.safetensors
cmp -s begun.safetensors resumed.safetensors && pass || fail "training from the file gives other values"
# Values of another file in the place of some: the rest is drawn.
expect 0 "wrote mixed" "$NETC" init m.net --weights begun.safetensors --map 'scale=slow' --ignore slow --allow-missing -o mixed.safetensors --device cpu
# In parts, the index last: what is trained from there on has the same bits.
expect 0 "" "${T[@]}" --seed 3 --save parts.safetensors.index.json --part-size 100
ls parts-00001-of-0000?.safetensors parts-00004-of-0000?.safetensors >.out 2>&1 && pass || fail "parts: $(ls)"
for from in begun.safetensors parts.safetensors.index.json; do expect 0 "" "${T[@]}" --resume $from --steps 5 --save "on.${from%%.*}.safetensors"; done
cmp -s on.begun.safetensors on.parts.safetensors && pass || fail "training from parts gives other values"
# Several processes that save in parts to one index at the same time: whole is the last, whichever it is.
for seed in 1 2 3 4; do expect 0 "" "$NETC" init m.net --seed $seed -o both.$seed.safetensors --device cpu; done
for round in 1 2 3 4 5; do
    for seed in 1 2 3 4; do "$NETC" init m.net --seed $seed -o both.safetensors.index.json --part-size 100 --device cpu >"both.$seed.out" 2>&1 & done
    wait
    expect 0 "" "$NETC" init m.net --weights both.safetensors.index.json -o last.safetensors --device cpu --seed 9
    "$NETC" show last.safetensors | sed 1d | grep -v ': ' >last.txt
    for seed in 1 2 3 4; do "$NETC" show both.$seed.safetensors | sed 1d | grep -v ': ' | cmp -s - last.txt && break; done && pass || fail "a mixture: $(cat last.txt)"
done
# Weights alone, of 16 bits, as published files are; and back.
expect 0 "wrote w.safetensors" "$NETC" init m.net --weights begun.safetensors --weights-only --type bf16 -o w.safetensors --device cpu
head -c 700 w.safetensors | grep -q '"format":"pt"' && ! grep -q 'weight.m"\|netc\|F32' w.safetensors && pass || fail "not weights alone: $(head -c 700 w.safetensors)"
expect 0 "note: 5 tensors of bf16 in w.safetensors are read as f32" "$NETC" run m.net --input x=x.npy --weights w.safetensors --device cpu
expect 1 "(--weights-only) can be written as f16" "$NETC" init m.net --type f16 -o x.safetensors --device cpu
expect 1 "written as .safetensors; name the file accordingly" "$NETC" init m.net -o x.json
expect 1 "written as .safetensors; name the file accordingly" "$NETC" init m.net -o x.parquet
finish
