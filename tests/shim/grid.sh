#!/bin/bash
# Sums (net/grid.net) over a grid of sizes, each as rows of thousands would have it: columns cut into parts and rows in shared
# memory; rows and columns in one pass (on a device of two multiprocessors, for which a few hundred rows are many).
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
FILE=$ROOT/tests/shim/net/grid.net

# one MULTIPROCESSORS ROWS N: checks these sizes; leaves a line in results.
one() {
    [ -z "$fused" ] || local -x NETC_CHECK_FUSED=1
    local size=(-D rows="$2" -D n="$3") tune=$2.$3.tune out
    { echo '# netc tune 1'; "$NETC" inspect "$FILE" --target sm_90 --knobs "${size[@]}" |
        sed -n 's/: column .*split=.*/ @ host shim: column team=8 split=2/p; s/: row .*keep=.*/ @ host shim: row team=64 keep=shared/p'; } >"$tune"
    out=$(SHIM_UNITS=$1 LD_LIBRARY_PATH=$SHIM timeout 3000 "$NETC" check "$FILE" --device cuda:0 --cache-dir '' --tune-file "$tune" "${size[@]}" 2>&1) &&
        grep -q 'measured schedules for' <<<"$out" && echo ok >>results ||
        echo "failed: $1 multiprocessors ${size[*]}: $(grep -E 'WRONG|error|kernel ' <<<"$out" | head -4)" >>results
}
for n in 1 32 33 65 129 257 513; do
    for sizes in '132 67' '2 300'; do
        while [ "$(jobs -rp | wc -l)" -ge "${SHIM_JOBS:-2}" ]; do wait -n; done
        fused=; today || fused=1 # (of a fifth of the sizes the other builds, too)
        # shellcheck disable=SC2086
        one $sizes $n &
    done
done
wait
passed=$(grep -c '^ok' results); failed=$(grep -c '^failed' results); grep '^failed' results
finish
