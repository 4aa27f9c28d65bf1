#!/bin/bash
# Running sums along long axes of few rows (passes/long_scans.c), on the device of the host, against the evaluator: random lengths,
# prime ones and such that divide among them.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/long_scans.net
needs_shim
export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
for _ in 1 2 3; do
    today || export NETC_CHECK_FUSED=1
    expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' -D n=$((32768 + RANDOM % 9000)) \
        -D rows=$((1 + RANDOM % 3)) -D long=$((1024 + RANDOM % 900)) -D inner=$((1 + RANDOM % 40))
    unset NETC_CHECK_FUSED
done
# Those of many rows stay one kernel.
kernels() { "$NETC" inspect "$net" -e some --target sm_90 --order "$@" | grep -c 'cumsum\|scan'; }
[ "$(kernels -D rows=2)" -gt "$(kernels -D rows=2000)" ] && pass || fail "many rows are divided, or few are not"
finish
