#!/bin/bash
# Maps whose threads read runs of elements for several outer positions (codegen/ir/interleaved.c), on the device of the host,
# against the evaluator: random sizes; on a device of one multiprocessor, where that pays for small images.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/interleaved.net
needs_shim
export SHIM_UNITS=1 LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
# interleaved LEAST DEFINITION...: so many kernels at least read runs, and all results are right.
interleaved() {
    today || local -x NETC_CHECK_FUSED=1
    local least=$1 found; shift
    expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"
    found=$("$NETC" inspect "$net" --cache-dir '' --knobs --target cuda "$@" 2>/dev/null | grep -c interleaved=1)
    [ "$found" -ge "$least" ] && pass || fail "SEED=$SEED $*: $found of $least kernels read runs"
}
interleaved 5
for _ in 1 2 3; do
    interleaved 0 -D b=$((1 + RANDOM % 3)) -D h=$((9 + RANDOM % 9)) -D w=$((9 + RANDOM % 12)) -D c=$((8 * (1 + RANDOM % 5) + RANDOM % 2 * 4)) \
        -D by=$((2 + RANDOM % 2)) -D groups=$((1 + RANDOM % 9))
done
finish
