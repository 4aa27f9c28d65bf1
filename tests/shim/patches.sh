#!/bin/bash
# Convolutions of few channels, whose windows are stored (passes/patches.c), on the device of the host, against the evaluator:
# random sizes, in one to three dimensions; on a device of one multiprocessor, where that pays for few windows.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/patches.net
needs_shim
export SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
# stored LEAST DEFINITION...: so many entries at least store their windows, and all are right.
stored() {
    today || return 0 # (a fifth each day)
    local least=$1 found; shift
    [ "$least" = 0 ] || local -x NETC_CHECK_FUSED=1 # (the larger sizes)
    expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"
    found=$("$NETC" inspect "$net" --cache-dir '' --order "$@" 2>/dev/null | awk '/^entry/ { name = $2 } /^  windows / { seen[name] } END { print length(seen) }')
    [ "$found" -ge "$least" ] && pass || fail "SEED=$SEED $*: $found of $least entries store windows"
}
stored 2 -D b=3
stored 5 -D b=4 -D h=31 -D c=7 -D o=24 -D stride=1
stored 1 -D b=3 -D h=23 -D c=3 -D k=7 -D stride=2 # (lines of 21 terms, each filled up to 24)
stored 0 -D h=17 -D c=1 -D k=5 -D dilation=2
stored 0 -D b=4 -D h=19 -D c=1 -D o=36 -D k=1 -D stride=1 -D dilation=2 -D f16s=1 # (rows beside columns with blocks of 252)
for _ in 1 2 3; do
    k=$((1 + RANDOM % 7)) # (of 5, dilated, one fits into images of 15 and more, of more than 5 not into all)
    stored 0 -D b=$((1 + RANDOM % 3)) -D h=$((15 + RANDOM % 10)) -D c=$((1 + RANDOM % 7)) -D o=$((1 + RANDOM % 40)) -D k=$k \
        -D stride=$((1 + RANDOM % 3)) -D dilation=$((k > 5 ? 1 : 1 + RANDOM % 2)) -D f16s=$((RANDOM % 2))
done
finish
