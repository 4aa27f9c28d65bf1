#!/bin/bash
# Short axes whose values are computed from each other (passes/short_axes.c), and neighbours that a thread loads and stores as
# vectors (codegen/ir/stacks.c), on the device of the host, against the evaluator: random lengths, orders, types and batches.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/short_axes.net
needs_shim
export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
run() { today || local -x NETC_CHECK_FUSED=1; expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"; }
run
precision=(f32 bf16 f16)
for round in 0 1 2 3 4; do
    k=$((2 + RANDOM % 15)) m=$((1 + RANDOM % 5))
    [ $round = 0 ] && k=$((2 << RANDOM % 4)) # rows that vectors fit, too
    run -D k=$k -D m=$m -D n=$((4096 / k + 1 + RANDOM % 500)) -D parts=$((2 + RANDOM % 7)) -D order=$((1 + RANDOM % 4)) \
        -D type=$((round ? RANDOM % 4 : 0)) --precision "${precision[RANDOM % 3]}"
done
calls() { "$NETC" inspect "$net" -e "$1" --target sm_90 --order -D n=9999 "${@:2}" | sed -n 's/.*total: \([0-9]*\) calls.*/\1/p'; }
for entry in kan shifted running; do
    [ "$(calls $entry)" -lt "$(calls $entry --skip-passes short_axes)" ] && pass || fail "$entry: $(calls $entry) calls"
done
# One step of neighbours, or a long axis, remains as it is.
cmp -s <("$NETC" inspect "$net" -e kept) <("$NETC" inspect "$net" -e kept --skip-passes short_axes) && pass || fail "not all is short"
expect 0 "nc_store<8>(&concat_out" "$NETC" "$net" --entries kan --target cuda --arch sm_90 --precision bf16 --emit cuda -D n=9999
NETC_CHECK_FUSED=1 SHIM_CUT='_row.at[1]=>_row.at[0]' expect 1 WRONG "$NETC" check "$net" --device cuda:0 --cache-dir '' # (another neighbour is found)
finish
