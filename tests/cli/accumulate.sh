#!/bin/bash
# Four micro-batches of 32 are one batch of 128: the same losses and parameters, within rounding. The model uses a
# file of the user's own, and a tap that is watched.
. "$(dirname "$0")/../lib.sh"
expect 0 "" "$NETC" run --device cpu "$ROOT/tests/modes/tables.net" -o x=x.npy -o y=y.npy
DATA=(--data x=x.npy --data y=y.npy --device cpu)
printf 'use nn\nfn body(x) { return silu(linear(x, 16) as inner) }\n' >mine.net
model() { # batch, statement
    cat <<N
use "mine.net"
use nn
use optim
dim batch = $1
model m(x: f32[batch, 8], y: f32[batch]) {
    h = body(x) as first
    tap h as hidden
    p = (linear(h, 1) as last)[:, 0]
    return loss = mse(p, y)
}
train m {
    $2
    minimize loss
    update adam(lr = 0.01)
}
N
}
model 128 "" >whole.net
model 32 "accumulate 4" >parts.net
for m in whole parts; do
    expect 0 "" "$NETC" train $m.net "${DATA[@]}" --steps 20 --no-shuffle --report-every 1 --save $m.safetensors --log $m.jsonl -q
done
awk -v tolerance=1e-5 -f "$ROOT/tests/modes/compare.awk" whole.jsonl parts.jsonl >said && pass || fail "accumulate 4: $(cat said)"
for m in whole parts; do
    expect 0 '"loss":' "$NETC" eval whole.net "${DATA[@]}" --weights $m.safetensors --json
    cp "$W/.out" $m.eval
done
awk -v tolerance=1e-5 -f "$ROOT/tests/modes/compare.awk" whole.eval parts.eval >said && pass || fail "parameters: $(cat said)"
expect 0 '"hidden.mean":' "$NETC" train whole.net "${DATA[@]}" --steps 2 --watch hidden --json
holds '"hidden.nonfinite":0'
expect 1 "taps cannot be watched in a step of several micro-batches" "$NETC" train parts.net "${DATA[@]}" --steps 2 --watch hidden

# In 16 bits the compiled graph rounds the values that the reference rounds, in the loop over micro-batches too.
cat >half.net <<'N'
use nn
use optim
dim batch = 3
model t(x: f32[batch, 7]) {
    h = x + (linear(x, 7) as first)
    y = linear(h, 8) as last
    return loss = huber(y, 0.25) + mean(h * h), y
}
train t {
    accumulate 4
    minimize loss
    update adam(lr = 0.01)
}
N
for precision in bf16 f16; do
    for seed in 1 2 3; do expect 0 worst "$NETC" check half.net --precision $precision --seed $seed --device cpu; done
done

sed 's/silu/silly/' mine.net >other.net; cp other.net mine.net
expect 1 "mine.net:2:" "$NETC" whole.net
holds "did you mean 'silu'"
holds "whole.net:6:"
finish
