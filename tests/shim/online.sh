#!/bin/bash
# Softmax and cross entropy of 16-bit floats in f32, whose maximum and sum are taken in one pass over the row (codegen/ir/online.c):
# random sizes on the device of the host, against the evaluator.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/narrow_maxima.net
needs_shim
export SHIM_UNITS=1 # a device that few rows fill

checked() { { [ "$1" = 0 ] && today; } || local -x NETC_CHECK_FUSED=1; LD_LIBRARY_PATH=$SHIM expect "$1" "$2" "$NETC" check "$net" --device cuda:0 --cache-dir '' "${@:3}"; }
RANDOM=$SEED # another day, other sizes
for _ in 1 2 3; do
    sizes=(-D rows=$((1 + RANDOM % 4)) -D width=$((45000 + (RANDOM * 32768 + RANDOM) % 40000)))
    echo "SEED=$SEED: ${sizes[*]}"
    checked 0 worst "${sizes[@]}"
done
# The sum that is not scaled as the maximum grows is seen at these sizes, which are computed in one pass. (Of odd widths, some are not,
# such as 1 row of 59493.)
export SHIM_CUT='_acc *= nc_exp_16(=>_acc *= 1 + 0 * nc_exp_16('
for rows in 1 3; do checked 1 WRONG -D rows=$rows -D width=61440; done
finish
