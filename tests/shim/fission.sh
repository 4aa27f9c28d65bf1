#!/bin/bash
# Loops split by passes/fission/fission.c, on the device of the host, against the evaluator: random sizes; sums over the last axis by
# neighbouring threads (sizes that are powers of two up to 32), after the loop otherwise.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/fission.net
needs_shim
export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
run() {
    today || local -x NETC_CHECK_FUSED=1
    expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"
}
sizes=(2 4 8 16 32 3 12 33 40 1)
for s in 16 ${sizes[RANDOM % 10]} ${sizes[RANDOM % 10]}; do
    run -D b=$((1 + RANDOM % 7)) -D c=$((2 + RANDOM % 20)) -D T=$((1 + RANDOM % 30)) -D s=$s \
        --precision $([ $((RANDOM % 2)) = 0 ] && echo f32 || echo bf16)
done
SHIM_UNITS=1 run -D b=5 -D c=13 -D s=8 -D T=9 # (many rows for each multiprocessor: their loads are not a step ahead)
for cut in 'm = N / 2; m > 0=>m = N / 2; m > 1' '= ALL ?=>= true ?' '+ row_by_8] = =>+ row_by_8 / 2] = '; do
    SHIM_CUT=$cut NETC_CHECK_FUSED=1 "$NETC" check "$net" --device cuda:0 --cache-dir '' >"$W/cut" 2>&1 && fail "not seen: $cut" || pass # (planted errors)
done
calls() { "$NETC" inspect "$net" -e "$1" --target sm_90 --order "${@:2}" | sed -n 's/.*total: \([0-9]*\) calls.*/\1/p'; }
for entry in train fission; do # but for a sum by index, which each iteration of the backward loop adds to
    few=$(calls $entry -D T=13) many=$(calls $entry -D T=99)
    [ $((many - few)) -le $((9 * 86)) ] && pass || fail "$entry launches kernels in every iteration: $few, $many"
done
finish
