#!/bin/bash
# What optimizers and other weights keep of f64 parameters is f64: beside the same written by hand, to the last digits.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
use optim
dim batch = 4
model make() { return x = cast(normal([16, 3], 1), f64) }
fn by_hand(p, g, lr) {
    state a: f64[shape(p)] = 0
    state b: f64[shape(p)] = 0
    a <- 0.9 * a + 0.1 * g
    b <- 0.999 * b + 0.001 * g * g
    k = cast(step, f64) + 1
    p <- p - lr * (a / (1 - 0.9 ** k)) / (sqrt(b / (1 - 0.999 ** k)) + 1e-8)
}
fn slow(p, g = none) {
    state mean: f64[shape(p)] = p
    if is_tensor(g) { mean <- 0.9 * mean + 0.1 * p }
    return mean
}
fn heavy(p, g, lr) {
    state a: f64[shape(p)] = 0
    a <- 0.9 * a + g
    p <- p - lr * a
}
fn one(x) { param w: f64[3] = [1, 2, 3]; return sum(x * w, 1) }
fn loss_of(y) { return mean(exp(sin(y)) + 0.1 * y * y) }
model m(x: f64[batch, 3]) {
    a, b, c, d = one(x) as a, one(x) as b, one(x) as c, one(x) as d
    averaged = one(x) reuse a with ema(decay = 0.9)
    return loss = loss_of(a) + loss_of(b) + loss_of(c) + loss_of(d), apart = max(abs(a.w - b.w)), apart2 = max(abs(c.w - d.w)),
           off = max(abs(averaged - (one(x) reuse b with slow)))
}
train m {
    minimize loss
    update adam(lr = 0.02) for params("a.w")
    update ema(decay = 0.9) for params("a.w")
    update by_hand(lr = 0.02) for params("b.w")
    update slow for params("b.w")
    update sgd(lr = 0.01, momentum = 0.9) for params("c.w")
    update heavy(lr = 0.01) for params("d.w")
}
N
"$NETC" run -q m.net --entry make --output x=x.npy >out 2>&1 || fail "make: $(cat out)"
"$NETC" train m.net --data x=x.npy --epochs 10 --save s.safetensors --log log >out 2>&1 && pass || fail "train: $(tail -3 out)"
[ "$("$NETC" show s.safetensors | grep -cE '^[a-d]\.w.* f64')" = 12 ] && pass || fail "types: $("$NETC" show s.safetensors)"
"$NETC" eval m.net --weights s.safetensors --data x=x.npy >out 2>&1 || fail "eval: $(tail -3 out)"
awk '{ for (i = 1; i < NF; i++) if ($i ~ /^(apart|apart2|off)$/) { n++; if ($(i + 1) + 0 > 1e-13) bad = 1 } } END { exit n < 3 || bad }' out && pass || fail "apart: $(cat out)"
finish
