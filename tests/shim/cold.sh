#!/bin/bash
# Products are searched while kernels are compiled, on two threads: that they do run at once, and what is said when
# either fails. The shim's NVRTC (SHIM_MEET) compiles nothing before the library has multiplied.
. "$(dirname "$0")/../lib.sh"
if ! command -v g++ >/dev/null; then
    skip "no g++: nothing runs on the shim"
    finish
fi
export LD_LIBRARY_PATH=$BUILD/shim
cat >two.net <<'NET'
use nn
use optim
dim batch = 16
model two(x: f32[batch, 64]) {
    y = gelu_tanh(linear(x, 96) as up)
    return loss = mean(square(linear(y, 64) as down))
}
train two {
    minimize loss
    update sgd(0.1)
}
NET
head -c $((64 * 64 * 4)) /dev/zero >x.raw
G=(--precision bf16 --device cuda:0 -v)
B=("$NETC" bench two.net --entry train --steps 1 --repeats 1 --compiles 0 "${G[@]}")
T=("$NETC" train two.net --steps 2 --data "x=x.raw:raw" "${G[@]}")
# met CODE TEXT COMMAND...
met() { rm -f met; expect "$1" "$2" env SHIM_MEET="$W/met" "${@:3}"; }
searched() { [ -e met ] && pass || fail "nothing was searched: $(cat "$W/.out")"; }

# bench compiles when a session loads; train on a thread that begins before there is a device
met 0 "step" "${B[@]}" --cache-dir ''
searched
met 0 "2 steps" "${T[@]}" --cache-dir cache
searched
# what was found is kept: nothing is compiled or searched
met 0 "2 steps" SHIM_REFUSE=k_ "${T[@]}" --cache-dir cache
holds "compiler 0.00 s (0.00 s of processor time), at the same time library"
# what took how long
met 0 "cold: search" "${B[@]}" --compiles 2 --cache-dir ''
holds "cold: compiler cpu"; holds "cold: text"; holds "cold: load"; holds "cold: choose"

# a kernel that does not compile while the library is asked, which takes its time or knows no such product
for way in B T; do
    declare -n command=$way
    met 2 "does not compile for sm_90" SHIM_REFUSE=k_ "${command[@]}" --cache-dir ''
    expect 2 "does not compile for sm_90" env SHIM_REFUSE=k_ SHIM_LT=slow "${command[@]}" --cache-dir ''
    expect 2 "does not compile for sm_90" env SHIM_REFUSE=k_ SHIM_LT=none "${command[@]}" --cache-dir ''
    # of the kernels that may be left out the others go on
    met 0 "does not compile for sm_90: error: the test wants it so; the matmul library is used without it" SHIM_REFUSE=nc_multiply_b "${command[@]}" --cache-dir ''
    searched
    # neither
    expect 2 "has no algorithm for matmul" env SHIM_REFUSE=nc_multiply_b SHIM_LT=none "${command[@]}" --cache-dir ''
done

# states so large that the copy to which training goes back is made beside the first steps: the update of the third
# is not finite, and nothing of it is kept
cat >rows.net <<'NET'
model rows() {
    i = iota([12, 3], 0)
    return x = where(i == 9, 0.0, 1.0) * normal([12, 3], 1)
}
NET
cat >wide.net <<'NET'
use nn
use optim
dim batch = 4
model wide(x: f32[batch, 3]) {
    state seen: f32[18000, 1024] = 1
    seen <- seen * 0.5
    return loss = mean(sqrt(abs(linear(x, 2, use_bias = false) as fc)))
}
train wide {
    minimize loss
    update sgd(0.01)
}
NET
W3=("$NETC" train wide.net --device cuda:0 --data x=rows.npy --no-shuffle -q)
expect 0 "" "$NETC" run rows.net --output x=rows.npy -q
expect 0 "" "${W3[@]}" --steps 2 --save two.st
expect 1 "parameters and states are those of step 2" "${W3[@]}" --steps 3 --save bad.st
cmp -s two.st bad.st && pass || fail "not the states of step 2"

# a library that is not there, of a program that was made to use it; of two failures the kernel's is told
if nm "$NETC" 2>/dev/null | grep -q __asan_init; then
    skip "dlopen cannot be replaced under the address sanitizer"
    finish
fi
cat >hide.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    return real(name && strstr(name, "libcublasLt") ? "hidden-by-a-test.so" : name, flags);
}
C
expect 0 "" ${CC:-cc} -shared -fPIC -o hide.so hide.c -ldl
expect 0 "" "$NETC" two.net --precision bf16 -o other.bin --arch sm_80
L=("$NETC" train other.bin --steps 2 --data "x=x.raw:raw" --device cuda:0 --cache-dir '')
expect 0 "2 steps" "${L[@]}"
expect 2 "no cuBLASLt" env LD_PRELOAD="$W/hide.so" "${L[@]}"
expect 2 "does not compile for sm_90" env LD_PRELOAD="$W/hide.so" SHIM_REFUSE=k_ "${L[@]}"
finish
