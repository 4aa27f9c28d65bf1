#!/bin/bash
# Two and three GPUs that share the work of a step, on the host, against the evaluator: random sizes, both ways of a step (the steps alone,
# and the graph with exchanges beside other kernels, whose nodes run in a random order), a check that fails on one of them, random programs.
# The host's devices report a kernel that is given another device's address.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/devices.net
needs_shim
export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SHIM_DEVICES=3
RANDOM=$SEED # another day, other sizes
run() {
    local n=$1 list=0
    shift
    for ((d = 1; d < n; d++)); do list+=",$d"; done
    today || local -x NETC_CHECK_FUSED=1
    expect 0 "kernels on cuda:$list" "$NETC" check "$net" --device "cuda:$list" --cache-dir '' "$@"
}
run 2 -D batch=$((2 + 2 * (RANDOM % 4))) -D width=$((1 + RANDOM % 12)) --precision $([ $((RANDOM % 2)) = 0 ] && echo f32 || echo bf16)
run 3 -D batch=$((3 + 3 * (RANDOM % 3))) -D width=$((1 + RANDOM % 12))
# Loops with exchanges in their bodies, and reductions over the divided axis.
for n in loops reduce; do
    expect 0 "tensors, worst" "$NETC" check "$ROOT/tests/net/devices/$n.net" --device cuda:0,1 --cache-dir ''
done
SHIM_CUT='* 6ll);=>* 0ll);' NETC_CHECK_FUSED=1 \
    "$NETC" check "$net" --device cuda:0,1 --cache-dir '' >"$W/cut" 2>&1 && fail "all take the first part" || pass # (a planted error)

# Steps as a graph: the losses of one device, whatever the order of its nodes.
for n in 0 0,1 0,1,2; do
    for seed in 1 $((2 + RANDOM)); do
        SHIM_SEED=$seed expect 0 "" "$NETC" bench "$net" -e train --device cuda:$n --compiles 0 --repeats 2 --steps 3 -D width=4 -q
    done
done
cat >data.net <<'N'
model data() {
    n = iota(36)
    return x = normal([36, 5, 4], 1), i = n % 7, y = cast(n, f32) / 36, wrong = cast(select(n == 31, 200, 0), f32)
}
N
expect 0 "" "$NETC" run data.net --device cpu -o x=x.npy -o i=i.npy -o y=y.npy -o wrong=wrong.npy
for n in 0 0,1 0,1,2; do
    SHIM_SEED=$((1 + RANDOM)) expect 0 "" "$NETC" train "$net" --data x=x.npy --data i=i.npy --data y=y.npy -D width=4 --device cuda:$n --epochs 3 \
        --report-every 1 --log $n.jsonl -q
    [ $n = 0 ] && continue
    awk -v tolerance=1e-3 -f "$ROOT/tests/modes/compare.awk" 0.jsonl $n.jsonl >said && pass || fail "$n: $(cat said)"
    expect 1 "10 at element" "$NETC" train "$net" --data x=x.npy --data i=i.npy --data y=wrong.npy -D width=4 --no-shuffle --device cuda:$n -q
    holds "is outside 0..7 (step 3)"
done
expect 0 "0 wrong" "$BUILD/fuzz-programs" --device cuda:0,1 --size small --count "$(today && echo 24 || echo 6)" --seed $((202760000 + SEED)) --out "$W/programs"
finish
