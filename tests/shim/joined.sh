#!/bin/bash
# Sums over the columns of concatenations, and maps of their pieces, on the device of the host against the evaluator, at
# sizes that nobody chose; and that their kernels load whole vectors, no more of them than threads have registers for.
# SHAPES (1): how many of each kind.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/joined_columns.net
# text PATTERN DEFINITION...: the number of lines with the pattern in the CUDA text.
text() { "$NETC" "$net" --emit cuda --target cuda --arch sm_90 --precision bf16 "${@:2}" >made.cu; grep -cE "$1" made.cu; }
single='\? (nc_b2f\()?[xyzw]_?_in\[' # an element of an operand that vectors fit, loaded alone
shared='_at = nullptr'
[ "$(text "$shared" -D n=300 -D a=64 -D b=32 -D c=32 -D d=32)" -ge 12 ] && pass || fail "vectors are not shared"
found=$(grep -cE "$single" made.cu)
[ "$found" = 0 ] && pass || fail "$found loads of single elements: $(grep -m1 -E "$single" made.cu)"
[ "$(text "$single" -D n=300 -D a=5 -D b=3 -D c=1 -D d=7)" -gt 0 ] && pass || fail "the pattern of single elements finds none"
text "$shared" -D n=3000 -D a=64 -D b=32 -D c=32 -D d=32 >/dev/null
most=$(awk '/^static __device__|^extern "C"/ { n = 0 } / = nc_(load|keep|fetch)</ { if (++n > most) most = n } END { print most }' made.cu)
[ "$most" -ge 12 ] && [ "$most" -le 24 ] && pass || fail "a map's thread has $most vectors"

SHIM=$BUILD/shim
needs_shim
checked() { today || local -x NETC_CHECK_FUSED=1; LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"; }
RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
for i in $(seq "${SHAPES:-1}"); do
    for times in 1 4 8; do
        any n 1 90; any a 1 5; any b 1 5; any c 1 5; any d 1 5; any layers 4 9
        sizes="-D n=$n -D a=$((2 * times * a)) -D b=$((times * b)) -D c=$((times * c)) -D d=$((times * d)) -D layers=$layers"
        [ $((RANDOM % 2)) = 1 ] && sizes="$sizes --precision bf16"
        echo "SEED=$SEED: $sizes"
        # shellcheck disable=SC2086
        checked $sizes
    done
done
# A neighbour's vector would be found.
NETC_CHECK_FUSED=1 SHIM_CUT='_position <=>_position + 8 <' LD_LIBRARY_PATH=$SHIM expect 1 WRONG "$NETC" check "$net" --device cuda:0 --cache-dir ''
finish
