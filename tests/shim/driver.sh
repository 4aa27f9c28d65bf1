#!/bin/bash
# What netc says about drivers, devices and libraries that no test machine has: the shim of shim.h
# plays them.
. "$(dirname "$0")/../lib.sh"
MLP=$ROOT/samples/mnist/mlp.net
SHIM=$BUILD/shim
digits 2000
DATA=(--data "image=$D/train-images-idx3-ubyte" --data "label=$D/train-labels-idx1-ubyte")
T=(train "$MLP" "${DATA[@]}" --device cuda:0 --steps 3)
# shimmed CODE TEXT VARIABLE=VALUE... command
shimmed() { expect "$1" "$2" env LD_LIBRARY_PATH="$SHIM" "${@:3}"; }

command -v g++ >/dev/null && g=1 || { g=; skip "no g++: nothing is trained on the shim"; }
[ -n "$g" ] && { shimmed 0 "3 steps" "$NETC" "${T[@]}" --save trained.safetensors; }

# -- a driver older than what compiled the kernels, too old at all, devices too old or absent
shimmed 2 "the driver is older than the compiler that made it" SHIM_TOO_NEW=1 "$NETC" "${T[@]}"
holds "cannot load kernel"
holds "driver for CUDA 13.0"
holds "update the NVIDIA driver, or compile again here (--rebuild)"
holds "made by a newer compiler" # the driver's own words
shimmed 2 "for CUDA 11.8; netc needs 12.0 or later" SHIM_DRIVER=11080 "$NETC" "${T[@]}"
shimmed 2 "sm_75; netc needs sm_80 (A100) or later" SHIM_ARCH=75 "$NETC" "${T[@]}" --precision bf16
holds "--device cpu"
shimmed 0 "netc needs sm_80 or later" SHIM_ARCH=75 "$NETC" doctor
shimmed 2 "no GPU" SHIM_DEVICES=0 "$NETC" "${T[@]}"
shimmed 0 "cpu" SHIM_DEVICES=0 "$NETC" run "$MLP" --help
shimmed 2 "there is no cuda:3; this machine has cuda:0 only" "$NETC" "${T[@]}" --device cuda:3

# -- a file of kernels for another device: its text is compiled; without NVRTC that is an error
shimmed 0 "" "$NETC" "$MLP" -o other.bin --arch sm_80
[ -n "$g" ] && { shimmed 0 "no code for host shim (sm_90) in the file: compiling its text" "$NETC" train other.bin "${DATA[@]}" --device cuda:0 --steps 3 -v; }
[ -n "$g" ] && { shimmed 0 "3 steps" SHIM_ARCH=80 "$NETC" train other.bin "${DATA[@]}" --device cuda:0 --steps 3; }

# -- out of memory: what it was for, and a batch that fits
shimmed 2 "out of memory" SHIM_MEMORY=400000 "$NETC" "${T[@]}"
holds "parameters"
shimmed 2 "out of memory" SHIM_MEMORY=3000000 "$NETC" "${T[@]}" -D batch=1024
holds "batch"

# -- a device with fewer multiprocessors than others of its architecture, or a slice of one: fewer parts, and the
# same sums. What runs there is what inspect shows there; an architecture asked for is a typical device.
cat >parts.net <<'NET'
model parts(x: f32[9000, 64]) { return s = sum(x, 0), m = max(x * x, 0) }
NET
parts() { # UNITS OPTION...: blocks of the kernel that reads x
    shimmed 0 "parts for sm_90" SHIM_UNITS="$1" "$NETC" inspect parts.net --order "${@:2}" >&2
    grep -m1 -o '[0-9]*x[0-9]* *[a-z_0-9]*sum' "$W/.out" | cut -dx -f1
}
all=$(parts 132) few=$(parts 12) typical=$(parts 12 --target sm_90)
[ "${few:-0}" -gt 0 ] && [ "$few" -lt "$all" ] && [ "$typical" = "$all" ] && pass || fail "$all, $few, $typical blocks"
[ -n "$g" ] && for units in 12 1; do
    shimmed 0 "kernels on cuda:0" SHIM_UNITS=$units "$NETC" check parts.net --device cuda:0 --cache-dir ''
    ! grep -qE 'WRONG|BAD' "$W/.out" && pass || fail "$units multiprocessors: $(cat "$W/.out")"
done

# -- a program that is trained is for the device that trains it; its kernels, those of the last batch of an
# evaluation too, are compiled before the training begins
cat >fit.net <<'NET'
use optim
dim batch = 800
model fit(image: u8[batch, 28, 28]) {
    param middle: f32[784] = 0
    d = cast(flatten(image), f32) / 255 - middle
    return loss = mean(d * d)
}
train fit {
    minimize loss
    update sgd(lr = 0.1)
}
NET
F=(train fit.net "${DATA[@]:0:2}" --eval-data "image=$D/t10k-images-idx3-ubyte" --device cuda:0 --steps 1 --cache-dir fit -v)
[ -n "$g" ] && {
    shimmed 0 "evaluated" "$NETC" "${F[@]}"
    [ "$(sed '/^step/,$d' "$W/.out" | grep -c '^NVRTC')" = 2 ] && pass || fail "not two compilations before the first step: $(cat "$W/.out")"
    shimmed 0 "NVRTC" SHIM_UNITS=12 "$NETC" "${F[@]}" # another size, other kernels
    shimmed 0 "evaluated" "$NETC" "${F[@]}"
    ! grep -q '^NVRTC' "$W/.out" && pass || fail "compiled again: $(cat "$W/.out")"
}

# -- a kernel that faults is named with its line
[ -n "$g" ] && { shimmed 2 "out of bounds" NETC_SYNC=1 'SHIM_CUT=*(decltype(m.raw) *)p = m.raw;=>*(decltype(m.raw) *)(p + 90000000) = m.raw;' "$NETC" "${T[@]}"; holds "mlp.net:"; }
finish
