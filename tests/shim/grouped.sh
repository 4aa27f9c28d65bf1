#!/bin/bash
# Convolutions by groups that are computed as dense ones (passes/merge_groups.c): forward and both gradients of a training step, and
# predictions of images that are not finite, on the device of the host, against the evaluator. Sizes that nobody chose, and some on
# purpose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=grouped.net
sed 's/^const b = .*/const b = 8/' "$ROOT/tests/shim/net/grouped.net" >$net

# merged COUNT DEFINITION...: so many products have no groups left, and thus one of 64 or more channels: three of the step, one of
# the model and one of its evaluation, whose results are repaired.
merged() {
    local count=$1 found dumped; shift
    rm -rf dump
    expect 0 "" "$NETC" "$net" -o model.bin --target cuda --dump dump -q "$@"
    dumped=$(ls dump/*_merge_groups.net 2>/dev/null || echo /dev/null)
    found="$(grep -c 'dot(.*batch_a=\[\], ' "$dumped") $(grep -c 'repair(' "$dumped")"
    [ "$found" = "$count $((count * 2 / 5))" ] && pass || fail "$found products without groups and repairs instead of $count: $*"
}

# Stride 1 and 2, channels that fill no vector, more results than channels; tf32. A convolution in three dimensions is one in two
# for each line of the weights. Wide groups stay.
merged 5 -D b=128 --precision bf16
merged 5 -D b=128 --precision bf16 -D stride=2 -D h=26
merged 5 -D b=128 --precision bf16 -D c=2 -D o=6 -D groups=32
merged 0 -D b=128 --precision bf16 -D groups=16 -D c=64 -D o=64
merged 0 # f32 without tensor cores
needs_shim
export SHIM_UNITS=8 # a device that few places fill, so that these are merged, too
right() {
    [ -z "${EXIT:-}" ] || local -x NETC_CHECK_FUSED=1
    [ -n "${EXIT:-}" ] || today || return 0 # (a fifth each day)
    LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library "$@"
}
LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" -e train --precision bf16 --order --no-library --cache-dir '' >order.txt 2>&1
[ "$(grep -c 'x384 *dot_' order.txt)" = 3 ] && pass || fail "products of all channels by warpgroups: $(grep dot_ order.txt)"
right --precision bf16
right --precision bf16 -D stride=2 -D h=26
RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
any n 1 2; any c 2 5; any o 2 5; any groups 8 16; any u 2 3; any stride 1 2; any dilation 1 2; any low 0 2; any high 0 2
sizes="-D n=$n -D h=$((n == 1 ? 200 : 17)) -D c=$c -D o=$o -D groups=$groups -D u=$u -D stride=$stride -D dilation=$dilation"
sizes="$sizes -D low=$low -D high=$high --precision $([ $((RANDOM % 2)) = 1 ] && echo bf16 || echo f16)"
echo "SEED=$SEED: $sizes"
# shellcheck disable=SC2086
right $sizes

# Predictions: SHIM_UNITS=4 for kernels of whole tiles, by warpgroups and by warps, 8 for partial sums that other kernels add.
net=grouped_predict.net
cp "$ROOT/tests/shim/net/$net" .
right --precision bf16 -D b=8
export SHIM_UNITS=4
LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" -D b=8 -D h=13 --precision bf16 --order --no-library --cache-dir '' >order.txt 2>&1
[ "$(grep -c 'x384 .*dot_repair_' order.txt)" = 5 ] && pass || fail "products that repair their results: $(grep repair order.txt)"
right --precision bf16 -D b=8 -D h=13
# Tiles take the channels of their groups only: by strips and by steps of 64 channels, as many results as channels or others.
for d in "-D groups=24 -D c=8 -D o=8 -D h=9" "-D groups=12 -D c=16 -D o=32 -D h=13 -D stride=2"; do
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" -D b=8 $d --precision bf16 --why --no-library --cache-dir '' >why.txt 2>&1
    [ "$(grep -c 'steps meet no weights' why.txt)" -ge 3 ] && pass || fail "$d: steps that meet no weights: $(grep groups why.txt)"
    # shellcheck disable=SC2086
    right --precision bf16 -D b=8 $d
done
SHIM_CUT='!= 0x7f800000u; }=>!= 1; }' EXIT=1 TEXT=WRONG right --precision bf16 -D b=8 # what is not repaired is found
any bad 1 60; any c 2 8; any o 2 12; any groups 8 24; any stride 1 2; any dilation 1 2; any low 0 2; any high 0 2; any h 8 12
sizes="-D b=8 -D bad=$bad -D c=$c -D o=$o -D groups=$groups -D stride=$stride -D dilation=$dilation -D low=$low -D high=$high -D h=$h"
sizes="$sizes --precision $([ $((RANDOM % 2)) = 1 ] && echo bf16 || echo f16)"
echo "SEED=$SEED: predictions $sizes"
# shellcheck disable=SC2086
right $sizes
finish
