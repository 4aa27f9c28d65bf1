#!/bin/bash
# Convolutions of odd numbers of channels, whose images are stored with zeros behind these (passes/channels.c), on the device of the
# host, against the evaluator: random sizes, a fifth of them each day; on a device of one multiprocessor, where small ones count.
. "$(dirname "$0")/../lib.sh"
net=$ROOT/tests/shim/net/channels.net
needs_shim
export SHIM_UNITS=1 LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
filled() { today || return 0; expect 0 "kernels on cuda:0" "$NETC" check "$net" --device cuda:0 --cache-dir '' "$@"; }
filled
cmp -s <("$NETC" inspect "$net") <("$NETC" inspect "$net" --skip-passes channels) && fail "nothing is filled" || pass
filled -D stride=2 -D b=3 -D h=16
for _ in 1 2 3; do
    filled -D b=$((1 + RANDOM % 3)) -D h=$((12 + RANDOM % 8)) -D c=$((16 + RANDOM % 50)) -D o=$((16 + RANDOM % 50)) -D k=$((1 + RANDOM % 4)) \
        -D stride=$((1 + RANDOM % 3)) -D dilation=$((1 + RANDOM % 2)) -D f16s=$((RANDOM % 2))
done
# On an H100, groups of four warps multiply such a convolution and its gradients.
odd=(-D b=64 -D h=40 -D c=230 -D o=460 --target sm_90 --why)
expect 0 "wgmma=own" "$NETC" inspect "$net" "${odd[@]}"
grep -q ': tile each' .out && fail "loaded element by element: $(grep ': tile each' .out)" || pass
expect 0 ": tile each" "$NETC" inspect "$net" "${odd[@]}" --skip-passes channels
finish
