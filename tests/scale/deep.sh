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
# user_seconds command...: of netc and the compilers it started.
user_seconds() { local TIMEFORMAT=%U; { time "$@" >/dev/null 2>"$W/.time_err"; } 2>&1; }

deep 500 >quarter.net
deep 2000 >whole.net
ulimit -s 1024
for m in quarter whole; do
    expect 0 "" "$NETC" $m.net --emit grad
    eval "nodes_$m=$(grep -c ' = ' "$W/.out")"
    eval "front_$m=$(user_seconds "$NETC" $m.net --emit grad)"
    eval "plan_$m=$(user_seconds "$NETC" $m.net --emit plan --target cuda)"
    expect 0 "" "$NETC" $m.net --target cpu -o $m.bin --cache-dir ''
    grep -q 'no CPU object' "$W/.out" && fail "$m: $(cat "$W/.out")"
    eval "all_$m=$(user_seconds "$NETC" $m.net --target cpu -o $m.bin --cache-dir '')"
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
