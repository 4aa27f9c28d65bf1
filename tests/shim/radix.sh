#!/bin/bash
# Sorts of long rows by digits (codegen/lower/lower_radix.c), on the device of the host, against the evaluator: random lengths, ranges of
# keys and numbers of rows, for devices that give a row one block or several.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/radix.net
needs_shim
export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
right() { # EXIT TEXT DEFINITION...
    local code=$1 text=$2; shift 2
    today || local -x NETC_CHECK_FUSED=1
    expect "$code" "$text" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"
}
for units in 2 132; do
    SHIM_UNITS=$units right 0 "kernels on cuda:0" -D n=$((4097 + RANDOM % 3000)) -D rows=$((1 + RANDOM % 2)) -D range=$((1 + RANDOM % 70000))
done
SHIM_UNITS=1 right 0 "kernels on cuda:0" -D n=$((4097 + RANDOM % 4000)) -D rows=1 # in shared memory
# Chunks of whole tiles, of one and of several.
export SHIM_UNITS=2
right 0 "kernels on cuda:0" -D n=8192 -D rows=1 -D range=2
right 0 "kernels on cuda:0" -D n=$((4096 * (5 + RANDOM % 3))) -D rows=1 -D range=256
# A chunk that takes the places of another, equal elements in the reverse order, a digit's first bit one too high: found.
SHIM_CUT='before += c < number=>before += c <= number' right 2 'race in device memory' -D n=4100
for cut in 'same & ((1u << lane) - 1)=>same >> 1 >> lane' 'key >> Low=>key >> (Low + 1)'; do
    SHIM_CUT=$cut right 1 WRONG -D n=4100 -D rows=1
done
# Rows that blocks sort in shared memory stay those, and of a range only the bits that differ are sorted.
kernels() { "$NETC" inspect "$net" -e several --target sm_90 --order "$@" | grep -c ' x\?[0-9]* *[a-z]*_'; }
[ "$(kernels -D n=4096)" -lt "$(kernels -D n=4097)" ] && pass || fail "rows of 4096: $(kernels -D n=4096), of 4097: $(kernels -D n=4097) kernels"
[ "$(kernels -D n=9000 -D range=200)" -lt "$(kernels -D n=9000 -D range=70000)" ] && pass ||
    fail "keys below 200: $(kernels -D n=9000 -D range=200), below 70000: $(kernels -D n=9000 -D range=70000) kernels"
finish
