#!/bin/bash
# evaluated(f): a call as outside of training. A target network with batch norm and dropout reads the running statistics, writes none and drops nothing.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
use nn
use optim
dim batch = 8
model make() { return x = normal([64, 3], 1), y = normal([64], 1) }
fn tower(x) { return (linear(dropout(relu(batch_norm(linear(x, 5) as a) as norm), 0.5), 1) as b)[:, 0] }
model net(x: f32[batch, 3], y: f32[batch]) {
    before = training
    p = tower(x) as t
    centre, spread = t.norm.running_mean, t.norm.running_var
    q = evaluated(tower)(x) reuse t with target
    assert all(t.norm.running_mean == centre) and all(t.norm.running_var == spread), "the statistics that the first call wrote"
    h = matmul(x, transpose(t.a.weight.copy)) + t.a.bias.copy
    h = (h - centre) * rsqrt(spread + 1e-5) * t.norm.weight.copy + t.norm.bias.copy
    by_hand = matmul(relu(h), transpose(t.b.weight.copy)) + t.b.bias.copy
    assert all(abs(q - by_hand[:, 0]) < 1e-4), "with the copies, without dropout"
    half = evaluated(dropout)(x, 0.5)
    assert all(half == x), "a function of the library"
    assert training == before, "training goes on behind it"
    return loss = mse(p, y) + 0.1 * mse(p, q), same = mean(cast(half == x, f32))
}
train net {
    minimize loss
    update adam(lr = 0.01)
    update target(every = 3)
}
N
"$NETC" run -q m.net --entry make --output x=x.npy --output y=y.npy >out 2>&1 || fail "make: $(cat out)"
for device in cpu ${TRAIN_DEVICE:-}; do
    if "$NETC" train m.net --data x=x.npy --data y=y.npy --epochs 3 --device "$device" --save s.safetensors >out 2>&1; then pass
    else fail "train on $device: $(tail -3 out)"; fi
done
"$NETC" show s.safetensors >out 2>&1
[ "$(grep -c 'running_mean' out)" = 1 ] && pass || fail "statistics: $(grep running out)"
"$NETC" check m.net >out 2>&1 && pass || fail "check: $(tail -3 out)"
finish
