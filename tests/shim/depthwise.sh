#!/bin/bash
# Convolutions of each channel by itself (codegen/lower/lower_taps.c): forward and both gradients, on the device of the host,
# against the evaluator. Sizes that nobody chose, and some on purpose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/depthwise.net
needs_shim
export SHIM_UNITS=1 # a device that few results fill

right() { today || local -x NETC_CHECK_FUSED=1; LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library "$@"; }
# Several places of a row and of a column, each with a vector of channels; all taps of a channel, or their last lines;
# strides, dilations, paddings that differ, windows wider than an image's edge.
right -D half=1 -D b=8 -D h=12 -D c=32
right -D half=1 -D b=3 -D h=28 -D c=16 -D u=5 -D v=7 -D low=2 -D high=3
right -D half=2 -D b=4 -D h=21 -D c=24 -D u=8 -D v=8 -D low=4 -D high=3
right -D b=3 -D h=28 -D c=40 -D stride=2 -D high=0
right -D half=2 -D n=3 -D h=10 -D c=16
right -D n=1 -D b=3 -D h=500 -D c=17 -D u=5 -D dilation=2 -D low=4 -D high=1
RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
for _ in 1 2; do
    any n 1 2; any b 1 4; any h 8 24; any c 1 48; any u 1 5; any v 1 7; any stride 1 3; any dilation 1 2; any low 0 3; any high 0 3; any half 0 2
    h=$((h + (v - 1) * dilation / 2))
    sizes="-D n=$n -D b=$b -D h=$h -D c=$c -D u=$u -D v=$v -D stride=$stride -D dilation=$dilation -D low=$low -D high=$high -D half=$half"
    echo "SEED=$SEED: $sizes"
    # shellcheck disable=SC2086
    right $sizes
done

# The windows of a gradient that is computed from several tensors, behind a layer norm, read it stored: each element is read 49 times.
cat >behind.net <<'NET'
use nn
use conv
use vision
use optim
dim batch = 64
model m(x: f32[batch, 7, 7, 768], label: i32[batch] in 0..10) {
    h = linear(x, 768) as first
    for i in 0..2 { h = convnext_block(h) as block[i] }
    return loss = cross_entropy(linear(mean(h, [1, 2]), 10) as head, label)
}
train m {
    minimize loss
    update sgd(lr = 0.1)
}
NET
"$NETC" inspect behind.net --target sm_90 --precision bf16 --knobs >behind.txt 2>&1
grep -q 'kernel .*sum_bwd' behind.txt && ! grep -q 'row team=32 vector=1' behind.txt && pass || fail "computed in each window: $(grep 'team=32 vector=1' behind.txt)"

# A sum over all pixels, computed from values a pixel and values a channel, has neighbouring channels as rows: what is large is
# contiguous along these.
"$NETC" inspect "$ROOT/bench/workloads/convnext.net" --target sm_90 --precision bf16 --knobs >convnext.txt 2>&1
grep -q '^kernel sum_bwd.*column' convnext.txt && ! grep -q '^kernel sum_bwd.* row team=1024' convnext.txt && pass ||
    fail "sums over pixels: $(grep '^kernel sum_bwd' convnext.txt)"

# Weights are stored in the order of the channels where images are large, and threads have several results: forward 7 places of
# 4 channels, backward all taps of 4 channels.
"$NETC" inspect "$net" --target sm_90 --why --no-library -D half=1 -D b=256 -D h=28 -D c=128 >why.txt
grep -q '\[turned\]' why.txt && pass || fail "weights are read across: $(head -5 why.txt)"
"$NETC" inspect "$net" --target sm_90 --knobs --no-library -D half=1 -D b=256 -D h=28 -D c=128 >knobs.txt
[ "$(grep -c 'column team=1 vector=4 unroll=1 split=1' knobs.txt)" -ge 2 ] && grep -q 'column team=8 vector=4 unroll=1' knobs.txt && pass ||
    fail "several results: $(cat knobs.txt)"
finish
