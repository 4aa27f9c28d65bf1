#!/bin/bash
# Scales that become part of weights (passes/fold_scales.c), on the device of the host, beside the same as sums that are no products:
# random sizes, with the pass and without it.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/folded.net
needs_shim
export LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
for size in "" "-D b=1" "-D b=$((2 + RANDOM % 9)) -D n=$((1 + RANDOM % 40)) -D c=$((1 + RANDOM % 40)) -D h=$((1 + RANDOM % 9))"; do
    for entry in dense turned images grouped; do
        # shellcheck disable=SC2086
        expect 0 "by f32" "$NETC" run -q "$net" -e $entry --device cuda:0 --cache-dir '' $size
    done
done
# Folded: weights of the scaled product are multiplied before it, as its operand.
expect 0 "" "$NETC" "$net" -o model.bin --target cuda --dump dump -q
folded=$(awk '/^entry/ { delete m } / = mul\(/ { m[$1] = 1 }
    / = dot\(/ { split($0, part, /[(,)]/); gsub(/ /, "", part[3]); n += part[3] in m } END { print n + 0 }' dump/*_fold_scales.net)
[ "$folded" = 4 ] && pass || fail "$folded of 4 scales became part of weights: $(ls dump)"
finish
