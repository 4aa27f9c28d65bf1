#!/bin/bash
# Products to which the library adds a stored value (passes/fuse/fuse_residual.c), on the device of the host, against the
# evaluator: random sizes in each precision.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/product_sums.net
needs_shim
export LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
checked() { today || local -x NETC_CHECK_FUSED=1; expect 0 "kernels on cuda:0" "$NETC" check "$net" "$@" --device cuda:0 --cache-dir ''; }
for precision in f32 bf16 f16; do
    sizes="--precision $precision -D m=$((1 + RANDOM % 300)) -D n=$((1 + RANDOM % 150)) -D k=$((1 + RANDOM % 150))"
    # shellcheck disable=SC2086
    checked $sizes
    # shellcheck disable=SC2086
    added=$("$NETC" "$net" $sizes --emit plan --target cuda --arch 90 | grep -c '  residual  ')
    [ "$added" -ge 4 ] && pass || fail "SEED=$SEED $sizes: the library adds $added values, wanted 4"
done
finish
