#!/bin/bash
# The last, smaller batch of an epoch or an evaluation, which a build of its own runs.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
device=${TRAIN_DEVICE:-cpu}
cat >rows.net <<'EOF'
model rows() { return x = cast(reshape(iota([30]), [10, 3]), f32) / 10 }
EOF
expect 0 "" "$NETC" run rows.net --output x=x.npy -q
TRAIN=("$NETC" train --data x=x.npy --device "$device" -q)

# What is watched is of that batch, also if it is the first after resuming.
cat >watched.net <<'EOF'
use nn
use optim
dim batch = 4
model watched(x: f32[batch, 3]) {
    tap x as seen
    return loss = mean(square(linear(x, 2) as fc)), top = max(x)
}
train watched {
    minimize loss
    update sgd(lr = 0.01)
}
EOF
# watches STEP EXTREMES...: of x in the last line of w.log.
watches() {
    local step=$1; shift
    local want="\"top.max\":$2 \"seen.min\":$1 \"seen.max\":$2"
    [ "$(tail -1 w.log | grep -oE '"(top.max|seen.min|seen.max)":[^,]*' | paste -sd ' ')" = "$want" ] && pass ||
        fail "step $step: wanted $want, found $(tail -1 w.log)"
}
WATCH=(--keep-last --no-shuffle --report-every 1 --watch top --watch seen --log w.log)
expect 0 "" "${TRAIN[@]}" watched.net "${WATCH[@]}" --steps 2 --save two.st && watches 2 1.20000005 2.29999995
expect 0 "" "${TRAIN[@]}" watched.net "${WATCH[@]}" --steps 3 --save three.st && watches 3 2.4000001 2.9000001
expect 0 "" "${TRAIN[@]}" watched.net "${WATCH[@]}" --steps 3 --save on.st --resume two.st && watches 3 2.4000001 2.9000001
cmp -s three.st on.st && pass || fail "resumed before the last batch of an epoch: another state"

# States that begin as parameters, read while other weights are evaluated: the build of eval alone, which that
# batch needs, begins none of them.
cat >late.net <<'EOF'
use nn
use optim
dim batch = 4
fn value(x) { return linear(x, 2) as fc }
model late(x: f32[batch, 3]) {
    now = value(x) as net
    old = value(x) reuse net with target
    return loss = mse(now, stop_gradient(0.5 * old) + 1)
}
train late {
    minimize loss
    update sgd(lr = 0.01)
    update target(every = 2) for params()
    update ema(decay = 0.5) for params()
    evaluate with ema
}
EOF
expect 0 "" "${TRAIN[@]}" late.net --steps 5 --eval-data x=x.npy --log late.log --save late.st
logged=$(sed -n 's/.*"eval_loss":\([^,}]*\).*/\1/p' late.log | tail -1)
for batch in 3 10; do # with a last batch of one, and without
    expect 0 "" "$NETC" eval late.net --data x=x.npy --weights late.st -D batch=$batch --device "$device" --json -q
    awk -v want="$logged" 'match($0, /"loss":[^,}]*/) { d = substr($0, RSTART + 7, RLENGTH - 7) - want; n++ } END { exit !(n && want > 0 && d * d < 1e-12) }' \
        "$W/.out" && pass || fail "in batches of $batch: $(cat "$W/.out"), in training $logged"
done
finish
