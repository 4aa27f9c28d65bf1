#!/bin/bash
# A deep network whose graph has more than 100,000 nodes compiles and trains on a stack of 1 MiB. Prints the times
# of a quarter of it and of all of it; asserts none.
. "$(dirname "$0")/../lib.sh"

# deep LAYERS: a chain of residual layers.
deep() {
    cat <<N
use nn
use optim
dim batch = 8
model deep(x: f32[batch, 16], y: f32[batch, 16]) {
    h = x
    for i in 0..$1 {
        h = h + 0.01 * tanh(linear(h, 16) as l[i])
    }
    return loss = mse(h, y)
}
train deep {
    minimize loss
    update sgd(lr = 0.01)
}
N
}
# user_seconds NAME command...: expects that it succeeds; sets NAME to the seconds of netc and the compilers it started.
user_seconds() {
    local TIMEFORMAT=%U
    { time expect 0 "" "${@:2}" 2>&3; } 3>&2 2>"$W/.time"
    printf -v "$1" %s "$(cat "$W/.time")"
}

deep 500 >quarter.net
deep 2000 >whole.net
ulimit -s 1024
for m in quarter whole; do
    user_seconds front_$m "$NETC" $m.net --emit grad
    printf -v nodes_$m %s "$(grep -c ' = ' "$W/.out")"
    user_seconds plan_$m "$NETC" $m.net --emit plan --target cuda
    user_seconds all_$m "$NETC" $m.net --target cpu -o $m.bin --cache-dir ''
    grep -q 'no CPU object' "$W/.out" && fail "$m: $(cat "$W/.out")"
done
[ "$nodes_whole" -ge 100000 ] && pass || fail "only $nodes_whole nodes"
echo "nodes          $nodes_quarter $nodes_whole"
echo "to gradients   $front_quarter s, $front_whole s"
echo "to the plan    $plan_quarter s, $plan_whole s (CUDA)"
echo "to an object   $all_quarter s, $all_whole s (CPU, C compiler included)"
printf 'model t() {\n    x = normal([64, 16], 1) as x\n    return x\n}\n' >t.net
expect 0 "" "$NETC" run --device cpu t.net -o x=x.npy -q
expect 0 "" "$NETC" train whole.bin --data x=x.npy --data y=x.npy --device cpu --steps 4 --log t.jsonl -q
grep -q '"step":4' t.jsonl && pass || fail "did not train: $(cat t.jsonl "$W/.out")"
finish
