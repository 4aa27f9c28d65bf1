#!/bin/bash
# What several devices compute of a divided batch: every rule, against the evaluator of the undivided program, and whole
# trainings against those of one device.
. "$(dirname "$0")/../lib.sh"

NETS=$ROOT/tests/net/devices
for f in "$NETS"/*.net; do
    for devices in cpu,cpu cpu,cpu,cpu cpu,cpu,cpu,cpu; do
        expect 0 "" env NETC_CHECK_FUSED=1 "$NETC" check "$f" --device $devices
    done
done

expect 0 "" "$NETC" run --device cpu "$ROOT/tests/modes/tables.net" -o x=x.npy -o y=y.npy
DATA=(--data x=x.npy --data y=y.npy)
# same NAME FILE OPTION...: the losses of one CPU and of [devices].
same() {
    local name=$1 file=$2 d; shift 2
    for d in cpu $devices; do
        expect 0 "" "$NETC" train "$file" "${DATA[@]}" --device $d --report-every 1 --log $d.jsonl -q "$@"
    done
    for d in $devices; do
        awk -v tolerance=1e-4 -f "$ROOT/tests/modes/compare.awk" cpu.jsonl $d.jsonl >said && pass || fail "$name on $d: $(cat said)"
    done
}
cat >m.net <<'N'
use nn
use optim
dim batch = 12
model m(x: f32[batch, 8], y: f32[batch]) {
    h = batch_norm(dropout(relu(linear(x, 16) as first), 0.2)) as norm
    h = h + 0.1 * normal([batch, 16], 1)
    return loss = mse((linear(h, 1) as last)[:, 0], y), contrast = mean(matmul(h, transpose(h)))
}
train m {
    minimize loss
    clip clip_global_norm(1.0)
    update adam(lr = 0.01)
}
N
devices="cpu,cpu cpu,cpu,cpu"
same "a training" m.net --steps 20
# The last, smaller batch of an epoch is computed whole where it cannot be divided.
devices="cpu,cpu,cpu,cpu,cpu,cpu"
same "a last, smaller batch" m.net --epochs 1 --keep-last
expect 1 "cannot be divided among 5 devices" "$NETC" train m.net "${DATA[@]}" --device cpu,cpu,cpu,cpu,cpu
holds "choose a multiple of 5: -D batch=15"

# Micro-batches, of a number that the devices do not divide.
sed 's/minimize loss/accumulate 3; minimize loss/' m.net | tr ';' '\n' >micro.net
devices="cpu,cpu cpu,cpu,cpu,cpu"
same "micro-batches" micro.net --steps 8
expect 1 "the micro-batch of 10 examples cannot be divided among 4 devices" "$NETC" train micro.net "${DATA[@]}" -D batch=10 --device cpu,cpu,cpu,cpu

# The draws are those of one device, to the bit.
cat >draws.net <<'N'
dim batch = 12
model draws(x: f32[batch, 8]) {
    loop i in 0..3 { emit a = normal([batch, 8], 1) + x; emit b = uniform([3], 0, 1) }
    return a, b, c = uniform([batch, 7], 0, 1), d = where(bernoulli([batch, 8], 0.5), x, 0), e = random_bits([4, batch], bits = 16)
}
N
echo 'model rows() { return x = cast(iota([12, 8], 1), f32) }' >rows.net
expect 0 "" "$NETC" run rows.net --device cpu -o x=rows.npy
for d in cpu cpu,cpu,cpu; do
    expect 0 '"a":' "$NETC" run draws.net --input x=rows.npy --device $d --json
    cp .out draws.$d
done
cmp -s draws.cpu draws.cpu,cpu,cpu && pass || fail "draws differ: $(head -c 300 draws.cpu draws.cpu,cpu,cpu)"

# most BYTES NAME: the training step exchanges no value of more.
most() {
    expect 0 "" "$NETC" "$2.net" --target cuda --devices 2 --entries train --emit plan -q
    awk -v most="$1" '/^ +[0-9]+ +exchange / {
        for (i = 3; $i !~ /^\(/;) i++
        v = $(i - 2) * ($(i - 1) ~ /^KB/ ? 1024 : $(i - 1) ~ /^MB/ ? 1048576 : 1)
        n++
        if (v > most) { print; bad = 1 }
    } END { exit bad || !n }' "$W/.out" >said && pass || fail "$2 exchanges more than $1 bytes: $(cat said)"
}
# Two views of each example in one batch, as contrastive losses have them: only their codes are exchanged whole.
cat >pairs.net <<'N'
use nn
use optim
dim batch = 64
model m(one: f32[batch, 32, 32], other: f32[batch, 32, 32]) {
    h = tanh(linear(concat([one, other]), 32) as first)
    z = linear(mean(h, 1), 8) as last
    return loss = cross_entropy(matmul(z, transpose(z)), (iota(2 * batch) + batch) % (2 * batch))
}
train m {
    minimize loss
    update adam(lr = 0.01)
}
N
most 16384 pairs
# An element of each row of a large product.
cat >rows.net <<'N'
use nn
use optim
dim batch = 64
model m(x: f32[batch, 8], label: i32[batch, 2] in 0..4096) {
    likely = log_softmax(linear(x, 4096) as head)
    return loss = -mean(take_along_axis(likely, label))
}
train m {
    minimize loss
    update adam(lr = 0.01)
}
N
most 140000 rows

# Few rows of a table: these are exchanged, not the table's gradient.
cat >table.net <<'N'
use nn
use optim
dim batch = 64
model m(word: i32[batch] in 0..20000, y: f32[batch]) {
    return loss = mse(linear(embedding(word, 20000, 16) as words, 1)[:, 0], y)
}
train m {
    minimize loss
    update sgd(lr = 0.01)
}
N
most 4096 table
sed -i 's/^dim batch = .*/dim batch = 64/' micro.net
most 4096 micro

# A GPU is named once, by whatever name.
needs_shim
for d in cuda:0,0 cuda,0 cuda:0,auto cuda:1,01 cuda:1,0,cuda:1; do
    expect 1 "twice; name each GPU once" env SHIM_DEVICES=2 LD_LIBRARY_PATH="$BUILD/shim" "$NETC" train m.net "${DATA[@]}" --device $d
done

finish
