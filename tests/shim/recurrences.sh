#!/bin/bash
# Loops that are one kernel (passes/recurrences.c), on the device of the host, against the evaluator: random sizes and numbers of
# iterations, under which some do not fill a block or the unrolled iterations.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/recurrences.net
needs_shim
export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
run() { today || local -x NETC_CHECK_FUSED=1; expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"; }
run
for _ in 1 2 3; do
    run -D b=$((1 + RANDOM % 9)) -D c=$((1 + RANDOM % 60)) -D T=$((2 + RANDOM % 40)) -D f16s=$((RANDOM % 2)) \
        --precision $([ $((RANDOM % 2)) = 0 ] && echo f32 || echo bf16)
done
NETC_CHECK_FUSED=1 SHIM_CUT='0.9f=>0.91f' expect 1 WRONG "$NETC" check "$net" --device cuda:0 --cache-dir '' # (the check sees another factor)
SHIM_CUT='_row[(i1 + 1) & 1]=>_row[i1 & 1]' expect 2 "race" "$NETC" check "$net" --device cuda:0 --cache-dir '' # (a row is stored while others read it)
for skip in "" recurrences; do # the same bits as a loop of launches
    for size in 3 7; do
        expect 0 "" "$NETC" run "$net" -e drawn -D b=$size -D c=$((size * 11)) -D T=21 --device cuda:0 --cache-dir '' --skip-passes "$skip" \
            -o "$TMP/bits$size$skip.npz"
    done
done
cmp "$TMP/bits3.npz" "$TMP/bits3recurrences.npz" && cmp "$TMP/bits7.npz" "$TMP/bits7recurrences.npz" && pass || fail "other bits than a loop"
row=$((61 + RANDOM % 964)) # (a block has up to 1024 elements)
for skip in "" recurrences; do
    expect 0 "" "$NETC" run "$net" -e drawn_rows -D b=2 -D c=$row -D T=11 --device cuda:0 --cache-dir '' --skip-passes "$skip" -o "$TMP/rows$skip.npz"
done
cmp "$TMP/rows.npz" "$TMP/rowsrecurrences.npz" && pass || fail "other bits than a loop: rows of $row"
calls() { "$NETC" inspect "$net" -e "$1" --target sm_90 --order "${@:2}" | sed -n 's/.*total: \([0-9]*\) calls.*/\1/p'; }
[ "$(calls recurrences -D T=13)" = "$(calls recurrences -D T=99)" ] && pass || fail "an iteration is a call: $(calls recurrences -D T=99)"
[ "$(calls met -D T=13)" = "$(calls met -D T=99)" ] && pass || fail "an iteration of rows is a call: $(calls met -D T=13), $(calls met -D T=99)"
[ "$(calls others -D T=13)" != "$(calls others -D T=99)" ] && pass || fail "elements that meet others in one kernel"
finish
