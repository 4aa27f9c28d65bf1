#!/bin/bash
# Convolutions that a library may compute (codegen/matmul/convolution.c, runtime/cuda/cuda_conv.c): on the device of the host, whose
# libcudnn (cudnn.c) says to be fast or slow, proposes engines that must be left out, or is absent; against the evaluator.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
export SHIM_UNITS=1 # (small convolutions count as large)
on_shim() { LD_LIBRARY_PATH=${LIBRARIES:-$SHIM} "$@"; }

net=$ROOT/tests/shim/net/convolutions.net
cp "$net" f32.net
for type in bf16 f16; do sed "s/f32\[/$type[/g; /^model rest/,\$d" "$net" >$type.net; done

# conv FILE CALLS OPTIONS...: all is right, and so many calls of the library are possible ('': any number).
conv() {
    local file=$1 calls=$2; shift 2
    NETC_CHECK_FUSED=1 on_shim expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$file" --device cuda:0 --cache-dir '' "$@"
    [ -n "$calls" ] || return
    on_shim "$NETC" inspect "$file" --cache-dir '' "$@" >inspect.txt
    grep -q " $calls library calls" inspect.txt && pass || fail "not $calls library calls: $file $*: $(head -1 inspect.txt)"
}
SHIM_DNN=fast conv f32.net 7 --precision tf32
SHIM_DNN=fast conv bf16.net 3 -D dilation=2 -D low=0 -D high=3 -D c=32
# (where the window is one pixel, dx would need less than no padding)
today && SHIM_DNN=fast conv f32.net 7 -D stride=2 -D low=2 -D b=16
today && SHIM_DNN=slow conv f16.net 2 -D u=1 -D v=5 -D b=12

# The gradient of images by classes of pixels, also of axes without a step, and of odd images.
sed '/^model dw/,$d; /^model forward/d' f32.net >dx.net; cp dx.net dx16.net; sed -i 's/f32\[/f16[/g' dx16.net
if [ $((SEED % 2)) = 0 ]; then SHIM_DNN=fast conv dx.net 1 -D stride=2 -D u=1 -D v=4 -D low=0 -D b=64
else SHIM_DNN=fast conv dx16.net 1 -D stride=2 -D u=5 -D v=4 -D low=0 -D high=3 -D b=10; fi # (each on every other day)
cat >three.net <<'NET'
use conv
model dx(x: f32[16, 5, 8, 9, 16], k: f32[24, 3, 3, 2, 16], g: f32[16, 5, 4, 4, 24]) {
    return r = grad(sum(convolve(x, k, stride = [1, 2, 2], padding = [1, 1, 0]) * g), x)
}
NET
SHIM_DNN=fast conv three.net 1

# In parts, of which the library computes the sum: few results with long sums.
sed '/^model dw/,$d' f32.net >short.net
SHIM_UNITS=2 SHIM_DNN=fast conv short.net 2 -D b=4 -D h=4 -D w=4 -D c=512 -D o=32 --precision tf32
grep -q '^ *dot  *24576 ' inspect.txt && pass || fail "no parts: $(cat inspect.txt)"

# Without a library, and with one that proposes nothing.
sed '/^model dx/,$d' f32.net >one.net
mkdir apart; for l in libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13; do ln -s "$SHIM/$l" apart/; done
LIBRARIES=$PWD/apart conv one.net 1 --precision tf32
SHIM_DNN=none conv one.net 1 --precision tf32
SHIM_DNN=broken conv one.net 1 --precision tf32

# A kernel that computes something else is found when both are timed; a choice is kept.
SHIM_DNN=wrong EXIT=1 TEXT='does not compute what the convolution library computes' conv one.net 1 -D b=5
for speed in fast slow; do
    SHIM_DNN=$speed on_shim expect 0 '' "$NETC" bench one.net --device cuda:0 --steps 1 --repeats 1 --compiles 0 --cache-dir $speed
done
grep -qra '[0-9a-f]\{16\} .*# library' fast && ! grep -qra 'kernel  # library' fast && pass || fail 'the slow kernel was chosen'
grep -qra 'kernel  # library' slow && pass || fail 'the slow library was chosen'
SHIM_DNN=none on_shim expect 0 '' "$NETC" bench one.net --device cuda:0 --steps 1 --repeats 1 --compiles 0 --cache-dir slow

# In a model.bin.
SHIM_DNN=fast on_shim expect 0 '' "$NETC" one.net -o one.bin --target cuda --precision tf32
SHIM_DNN=fast conv one.bin ''

RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
for file in short bf16; do
    today || continue # (a fifth of both)
    any b 3 9; any u 1 4; any v 1 4; any stride 1 3; any dilation 1 2; any low 0 3; any high 0 3; any h 9 15; any w 9 15; any c 3 9
    any o 3 9
    sizes="-D b=$b -D h=$h -D w=$w -D c=$((8 * c)) -D o=$((8 * o)) -D u=$u -D v=$v -D stride=$stride -D dilation=$dilation"
    sizes="$sizes -D low=$low -D high=$high"
    echo "SEED=$SEED: $file $sizes"
    # shellcheck disable=SC2086
    SHIM_DNN=fast conv $file.net '' $sizes
done
finish
