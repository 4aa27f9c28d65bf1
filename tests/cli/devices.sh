#!/bin/bash
# Two, three and four devices (the CPU, named as often) train as one does: the same losses, parameters, metrics and draws.
. "$(dirname "$0")/../lib.sh"
expect 0 "" "$NETC" run --device cpu "$ROOT/tests/modes/tables.net" -o x=x.npy -o y=y.npy
cat >net.net <<'N'
use nn
use optim
dim batch = 24
model m(x: f32[batch, 8], y: f32[batch]) {
    h = dropout(batch_norm(relu(linear(x, 12, use_bias = false) as first)) as norm1, 0.25)
    h = h + (batch_norm(linear(h, 12, use_bias = false) as second) as norm2)
    p = (linear(h, 1) as last)[:, 0]
    return loss = mse(p, y), worst = max(abs(p - y)), place = argmax(abs(p - y)), p
}
train m {
    minimize loss
    update adam(lr = 0.01)
}
N
DATA=(--data x=x.npy --data y=y.npy)
for n in cpu cpu,cpu cpu,cpu,cpu cpu,cpu,cpu,cpu; do
    expect 0 "" "$NETC" train net.net "${DATA[@]}" --split 0.8 --device $n --steps 20 --report-every 1 --save $n.safetensors --log $n.jsonl -q
    expect 0 '"loss":' "$NETC" eval net.net "${DATA[@]}" --weights $n.safetensors --device $n --json
    cp "$W/.out" $n.eval
    [ $n = cpu ] && continue
    awk -v tolerance=1e-4 -f "$ROOT/tests/modes/compare.awk" cpu.jsonl $n.jsonl >said && pass || fail "$n: $(cat said)"
    awk -v tolerance=1e-4 -f "$ROOT/tests/modes/compare.awk" cpu.eval $n.eval >said && pass || fail "$n, evaluated: $(cat said)"
done
cat >rows.net <<'N'
model rows() {
    i = iota(24)
    return x = select(i == 21, 11, i % 10), y = cast(i, f32) / 8
}
N
expect 0 "" "$NETC" run rows.net --device cpu -o x=i.npy -o y=j.npy
# The draws are those of one device, bit for bit.
cat >draws.net <<'N'
dim batch = 24
model draws(j: f32[batch]) {
    x = expand(j, -1)
    return u = x * 0 + uniform([batch, 5], 0, 1), n = x * 0 + normal([batch, 5], 1), b = x * 0 + cast(bernoulli([batch, 5], 0.5), f32)
}
N
for n in cpu cpu,cpu,cpu; do
    expect 0 "" "$NETC" run draws.net --device $n --seed 7 --input j=j.npy -o u=u$n.npy -o n=n$n.npy -o b=b$n.npy
done
for f in u n b; do cmp ${f}cpu.npy ${f}cpu,cpu,cpu.npy && pass || fail "draws $f differ"; done

# A checkpoint goes on elsewhere; code for several devices is in a model.bin, or is compiled again.
expect 0 "" "$NETC" train net.net "${DATA[@]}" --split 0.8 --device cpu --steps 24 --resume cpu,cpu.safetensors --save on.safetensors -q
expect 0 "" "$NETC" net.net -o net.bin --target cpu --devices 2
expect 0 "" "$NETC" train net.bin "${DATA[@]}" --device cpu,cpu --steps 2 -q
expect 0 "" "$NETC" train net.bin "${DATA[@]}" --device cpu --steps 2 -q
expect 0 "" "$NETC" predict net.net "${DATA[@]}" --weights cpu.safetensors --device cpu,cpu -o p.npz

# Gradients of weights are exchanged once, and so are sums; nothing of the size of the batch is.
"$NETC" net.net --target cpu --devices 2 --entries train --emit plan | grep ' exchange ' >exchanges
[ "$(wc -l <exchanges)" -ge 10 ] && pass || fail "few exchanges: $(cat exchanges)"
[ "$(sort exchanges | sed 's/.*(\([^#]*\)#.*/\1/' | uniq -d | grep -c weight)" = 0 ] && pass || fail "a gradient is exchanged twice"

# A step that makes its own examples is computed whole by all.
cat >made.net <<'N'
use nn
use optim
model made() { return loss = mean((linear(normal([12, 3], 1), 1) as fc) ** 2) }
train made {
    minimize loss
    update sgd(lr = 0.1)
}
N
expect 0 "'train' is not divided: each of the 2 devices computes all of it" "$NETC" train made.net --steps 2 --device cpu,cpu

# More than two devices add up large terms in parts.
cat >wide.net <<'N'
use nn
use optim
dim batch = 6
model wide(x: f32[batch, 300]) { return loss = mean(tanh(linear(x, 240) as fc) ** 2) }
train wide {
    minimize loss
    update sgd(lr = 0.1)
}
N
"$NETC" wide.net --target cpu --devices 3 --entries train --emit plan >plan
[ "$(grep -c 'exchange .* of each part' plan)" = 1 ] && pass || fail "a large gradient is not added up in parts: $(cat plan)"
NETC_CHECK_FUSED=1 expect 0 "train    fused" "$NETC" check wide.net --device cpu,cpu,cpu

# A check that fails on one device stops all, before anything is changed.
cat >index.net <<'N'
use optim
dim batch = 8
model m(x: i32[batch], y: f32[batch]) {
    param table: f32[10, 3] = 1
    return loss = mean((sum(table[x], -1) - y) ** 2)
}
train m {
    minimize loss
    update sgd(lr = 0.1)
}
N
for n in cpu cpu,cpu; do
    expect 1 "11 at element" "$NETC" train index.net --data x=i.npy --data y=j.npy --no-shuffle --device $n --save stop$n.safetensors
    holds "saved stop$n.safetensors at step 2"
    "$NETC" show stop$n.safetensors | tail -n +2 >stop$n.txt
done
holds "element 1 of the part of device 1 is outside 0..10 (step 3)"
diff stopcpu.txt stopcpu,cpu.txt && pass || fail "what is kept when a check fails"

expect 1 "cannot be divided among 3 devices" "$NETC" train net.net "${DATA[@]}" --device cpu,cpu,cpu -D batch=32 --steps 1
holds "choose a multiple of 3: -D batch=33"
expect 1 "there is no device 'gpu'" "$NETC" train net.net "${DATA[@]}" --device cpu,gpu --steps 1
expect 1 "there is no device ''" "$NETC" train net.net "${DATA[@]}" --device ,cpu --steps 1
expect 1 "devices cannot share the work of a step" "$NETC" net.net -o net.bin --devices 17
expect 1 "on one device, not on cpu,cpu" "$NETC" tune net.net --device cpu,cpu --budget 1
finish
