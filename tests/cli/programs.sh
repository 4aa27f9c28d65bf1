#!/bin/bash
# Several train blocks in a file, chosen by --program; several updates of a parameter in a step, in the order written.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
use nn
use optim
dim batch = 8
model make() { return x = normal([8, 3], 1), y = normal([8], 1) }
model net(x: f32[batch, 3], y: f32[batch]) {
    h = tanh(linear(x, 5) as body)
    return loss = mse((linear(h, 1) as top)[:, 0], y)
}
fn shrink(p, g) { p <- 0.9 * p - 0.01 * g }
fn both(p, g, lr) {                                # sgd(lr), then shrink with the same gradient
    q = p - lr * g
    p <- 0.9 * q - 0.01 * g
}
train net {
    minimize loss
    update sgd(lr = 0.1, momentum = 0.5)
}
train net as inner {                               # three steps in one: the momentum goes on
    for i in 0..3 {
        minimize loss
        update sgd(lr = 0.1, momentum = 0.5)
    }
}
train net as apart {                               # every round has a momentum of its own
    for i in 0..3 {
        minimize loss
        update sgd(lr = 0.1, momentum = 0.5) as "round{i}"
    }
}
train net as twice {
    minimize loss
    update sgd(lr = 0.1) for params("*.weight")
    update shrink for params(rank = 2)
    update sgd(lr = 0.1) for rest
}
train net as once {
    minimize loss
    update both(lr = 0.1) for params(rank = 2)
    update sgd(lr = 0.1) for rest
}
train net as head {
    minimize loss over params("top.*")
    update adam(lr = 0.1)
}
N
expect 0 "" "$NETC" run m.net --entry make -o x=x.npy -o y=y.npy
run() { # NAME STEPS options...: trains, leaves its last line in NAME.out
    local name=$1 steps=$2; shift 2
    expect 0 "saved $name.safetensors" "$NETC" train m.net --program "$name" --steps "$steps" --save "$name.safetensors" --data x=x.npy --data y=y.npy "$@"
    "$NETC" eval m.net --weights "$name.safetensors" --data x=x.npy --data y=y.npy >"$name.out"
}
same() { cmp -s "$1.out" "$2.out" && pass || fail "$1: $(cat "$1.out"), $2: $(cat "$2.out")"; }
run net 6
holds "program"
run inner 2
same inner net
run apart 1
"$NETC" train -q m.net --steps 3 --save three.safetensors --data x=x.npy --data y=y.npy >three.out
"$NETC" eval m.net --weights three.safetensors --data x=x.npy --data y=y.npy >three.out
cmp -s apart.out three.out && fail "a momentum of its own changes nothing" || pass
expect 0 "body.weight.round2.velocity" "$NETC" inspect --params m.net --program apart
run twice 4
run once 4
same twice once
run head 2 --weights net.safetensors
expect 0 "top.weight.m" "$NETC" inspect --params m.net --program head
grep -q "body.weight.m" "$W/.out" && fail "moments of what is not trained" || pass
expect 1 "net.safetensors is a checkpoint of another model, or of another of its programs (--program NAME); " "$NETC" train m.net --program head --resume net.safetensors --data x=x.npy --data y=y.npy --steps 9
# Nor are the step and the momentum of one program those of another with the same optimizer.
sed '/as inner/s/inner/other/' m.net >renamed.net
T=("$NETC" train --data x=x.npy --data y=y.npy --device cpu --steps 9)
expect 1 "net.safetensors was trained by program 'net', this is 'inner': its step and its optimizer states do not belong to it; start from its parameters with --weights, or give --program net" \
    "${T[@]}" m.net --program inner --resume net.safetensors
expect 0 "9 steps" "${T[@]}" m.net --program inner --weights net.safetensors
expect 0 "note: inner.safetensors was trained by program 'inner', this is 'other'" "${T[@]}" renamed.net --program other --resume inner.safetensors
expect 0 "3 steps" "${T[@]}" m.net --resume net.safetensors
grep -q note: "$W/.out" && fail "a note of nothing that changed" || pass
# The reference evaluator agrees, under accumulation too, and a model.bin keeps its program.
sed 's/^    for i in 0..3 {/    accumulate 2\n&/' m.net >acc.net
expect 0 "train" "$NETC" check --device cpu acc.net --program inner
expect 0 "KiB" "$NETC" m.net --target cpu --program inner -o m.bin
expect 0 "2 steps" "$NETC" train m.bin --steps 2 --save bin.safetensors --data x=x.npy --data y=y.npy
"$NETC" eval m.net --weights bin.safetensors --data x=x.npy --data y=y.npy >bin.out
same bin inner
expect 0 "6 steps" "$NETC" train m.bin --steps 6 --save bin.safetensors --data x=x.npy --data y=y.npy --program net
"$NETC" eval m.net --weights bin.safetensors --data x=x.npy --data y=y.npy >bin.out
same bin net
# What is wrong with a block that is not chosen is said where the whole file is compiled, and only there.
expect 1 "did you mean 'inner'?" "$NETC" train m.net --program iner --data x=x.npy --data y=y.npy
printf 'train net as wrong {\n    minimize y\n    update sgd(lr = 0.1)\n}\n' >>m.net
expect 1 "m.net:$(grep -n 'minimize y' m.net | cut -d: -f1):" "$NETC" m.net
expect 0 "1 step in" "$NETC" train m.net --steps 1 --data x=x.npy --data y=y.npy
# Options of layers and optimizers may be settings and schedules, with the results of numbers.
cat >options.net <<'N'
use nn
use optim
dim batch = 8
setting half = 0.5
setting quarter = 0.25
fn net(x, y, p, smoothing) {
    s = reshape(dropout(linear(x, 6) as first, p), [batch, 2, 3])
    return cross_entropy(flatten(attention(s, s, s, drop = p)), cast(y > 0, i32), smoothing)
}
model fixed(x: f32[batch, 3], y: f32[batch]) { return loss = net(x, y, 0.25, 0.5) }
model chosen(x: f32[batch, 3], y: f32[batch]) { return loss = net(x, y, quarter, half) }
train fixed {
    minimize loss
    update sgd(lr = 0.1, momentum = 0.5, weight_decay = 0.25) for params(rank = 2)
    update rmsprop(lr = 0.1, momentum = 0.5) as one for params("*.bias")
    update adam(lr = 0.1, weight_decay = 0.25) as two for params("*.bias")
}
train chosen {
    minimize loss
    update sgd(lr = 0.1, momentum = half, weight_decay = quarter) for params(rank = 2)
    update rmsprop(lr = 0.1, momentum = 0.5 + 0 * step) as one for params("*.bias")
    update adam(lr = 0.1, weight_decay = 0.25 + 0 * step) as two for params("*.bias")
}
N
for p in fixed chosen; do
    expect 0 "6 steps" "$NETC" train options.net --program $p --steps 6 --save $p.safetensors --data x=x.npy --data y=y.npy
    "$NETC" eval options.net --program fixed --weights $p.safetensors --data x=x.npy --data y=y.npy >$p.out
done
# (1 / (1 - p) of a setting is rounded to f32, that of a number is not: the last digit may differ)
awk '{ v[NR] = $NF } END { d = v[1] - v[2]; exit !(NR == 2 && v[1] > 0 && d * d <= 1e-8) }' fixed.out chosen.out && pass ||
    fail "fixed: $(cat fixed.out), chosen: $(cat chosen.out)"
# Averages that nothing updates are the initial parameters: a note says so, unless nothing trains these.
cat >average.net <<'N'
use nn
use optim
dim batch = 8
fn held(x) {
    param turn: f32[4, 4] = normal(1) frozen
    return matmul(x, turn)
}
model average(x: f32[batch, 3], y: f32[batch]) {
    h = held(linear(x, 4) as first)
    return loss = mse((linear(h, 1) as last)[:, 0], y)
}
train average {
    minimize loss
    update sgd(lr = 0.1)
    update ema(decay = 0.5) for params("first.*")
    evaluate with ema
}
N
E=("$NETC" train average.net -D batch=4 --steps 6 --data x=x.npy --data y=y.npy --split 0.5)
expect 0 "note: average.net:16: evaluations read 'last.weight.average' and 1 more" "${E[@]}"
sed -i 's/ for params("first.\*")/ for params()/' average.net
expect 0 "6 steps" "${E[@]}"
grep -q note: "$W/.out" && fail "all averages are updated: $(grep note: "$W/.out")" || pass
# Entries that read no data: an evaluation of what training stored is one batch, without its rows; a
# training step without data has no examples to count.
cat >stored.net <<'N'
use nn
use optim
dim batch = 8
model stored(x: f32[batch, 3], y: f32[batch]) {
    state seen: f32[batch, 3] = 1
    if training { seen <- x }
    return loss = mean((linear(seen, 1) as fc)[:, 0] ** 2), count = sum(seen)
}
train stored {
    minimize loss
    update sgd(lr = 0)
}
N
expect 0 "count 12" "$NETC" eval stored.net -D batch=4 --data x=x.npy --data y=y.npy --device cpu
expect 0 "count 12" "$NETC" eval stored.net -D batch=4 --device cpu
expect 0 "eval_loss" "$NETC" train stored.net -D batch=4 --steps 6 --data x=x.npy --data y=y.npy --split 0.5 --device cpu
expect 0 "eval_loss" "$NETC" train stored.net -D batch=4 --steps 6 --data x=x.npy --data y=y.npy --eval-data x=x.npy --eval-data y=y.npy --device cpu
expect 0 "eval " "$NETC" check stored.net -D batch=4 --device cpu
cat >drawn.net <<'N'
use nn
use optim
dim batch = 8
model drawn(x: f32[batch]) { return loss = mean((linear(normal([batch, 2], 1), 1) as fc) ** 2 + 1) }
train drawn {
    minimize loss
    update sgd(lr = 0)
}
N
expect 0 "loss 1." "$NETC" eval drawn.net --data x=y.npy --device cpu
# Steps that make their own examples: --steps counts them, and a resumed training draws the same ones.
expect 1 "'train' reads none of the data" "$NETC" train drawn.net --data x=y.npy --device cpu --steps 4
expect 1 "give --steps N" "$NETC" train drawn.net --device cpu
expect 1 "omit --split" "$NETC" train drawn.net --steps 4 --split 0.5 --device cpu
sed 's/sgd(lr = 0)/adam(lr = 0.01)/' drawn.net >made.net
expect 0 "without data" "$NETC" train made.net --steps 20 --device cpu --save whole.safetensors
expect 0 "" "$NETC" train made.net --steps 12 --device cpu --save made.safetensors -q
expect 0 "8 steps" "$NETC" train made.net --steps 20 --device cpu --resume made.safetensors --save made.safetensors
"$NETC" run made.net --device cpu --entry drawn --weights whole.safetensors >a 2>&1
"$NETC" run made.net --device cpu --entry drawn --weights made.safetensors >b 2>&1
cmp a b && grep -q loss a && pass || fail "resumed without data: $(cat a b)"
printf 'model m(x: f32[3]) { return x }\n' >none.net
expect 1 "none has no train block, and so none called 'a'" "$NETC" none.net --program a
finish
