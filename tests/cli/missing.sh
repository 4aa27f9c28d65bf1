#!/bin/bash
# Libraries that are not there: each is hidden in turn; what needs it says so, the rest goes on.
. "$(dirname "$0")/../lib.sh"
MLP=$ROOT/samples/mnist/mlp.net
if nm "$NETC" 2>/dev/null | grep -q __asan_init; then skip "dlopen cannot be replaced under the address sanitizer"; finish; fi
cat >hide.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    const char *hide = getenv("HIDE");
    if (name && hide && strstr(name, hide)) name = "hidden-by-a-test.so";
    return real(name, flags);
}
C
expect 0 "" ${CC:-cc} -shared -fPIC -o hide.so hide.c -ldl
without() { local what=$1; shift; expect "$1" "$2" env LD_PRELOAD="$W/hide.so" HIDE="$what" "${@:3}"; }

without libnvrtc 0 "no  NVRTC" "$NETC" doctor
without libnvrtc 2 "no NVRTC" "$NETC" "$MLP" -o a.bin --target cuda --cache-dir ''
holds "install"
[ -e a.bin ] && fail "a.bin was written all the same" || pass
without libnvrtc 2 "no NVRTC" "$NETC" "$MLP" -o a.bin --arch sm_90 --cache-dir ''
without libnvrtc 2 "no NVRTC" "$NETC" "$MLP" --emit ptx
without libnvrtc 0 "text only" "$NETC" "$MLP" -o a.bin --cache-dir ''
without libnvrtc 0 "" "$NETC" "$MLP" --emit cuda
without libcublasLt 0 "no  cuBLASLt" "$NETC" doctor
without libcublasLt 0 "" "$NETC" "$MLP" --emit cuda
without libcuda.so 2 "no NVIDIA driver" "$NETC" run "$MLP" --device cuda:0
holds "--device cpu"
without libcuda.so 0 "cpu" "$NETC" doctor --json
holds "; install the NVIDIA driver"
digits 1000
DATA=(--data "image=$D/train-images-idx3-ubyte" --data "label=$D/train-labels-idx1-ubyte")
T=(train "$MLP" "${DATA[@]}" --device cpu --steps 7 -q)
without openblas 0 "" "$NETC" "${T[@]}" --log without.jsonl
expect 0 "" "$NETC" "${T[@]}" --log with.jsonl
awk -v tolerance=1e-5 -f "$ROOT/tests/modes/compare.awk" with.jsonl without.jsonl >said && pass || fail "without OpenBLAS: $(cat said)"
expect 0 "" env -u PATH "$NETC" "${T[@]}" --cache-dir '' # (gcc looks for its linker there)
# Where no GPU is, the device that tests/shim makes of the host stands in for one.
if ! "$NETC" doctor | grep -q '^yes cuda:' && command -v g++ >/dev/null; then export LD_LIBRARY_PATH=$BUILD/shim; fi
if "$NETC" doctor | grep -q '^yes cuda:'; then
    G=("${DATA[@]}" --device cuda:0 --steps 3)
    without libnvrtc 2 "no NVRTC" "$NETC" train "$MLP" "${G[@]}" --cache-dir ''
    without libcublasLt 0 "3 steps" "$NETC" train "$MLP" "${G[@]}"
    expect 0 "" "$NETC" "$ROOT/bench/mlp.net" -D first=512 -D second=512 -D batch=512 -o with.bin --target cuda
    without libcublasLt 2 "no cuBLASLt" "$NETC" train with.bin "${G[@]}"
else
    skip "no GPU: training on it without NVRTC or cuBLASLt is not tried"
fi
mkdir -p set/a
printf '\x89PNG\r\n\x1a\nand so on' >set/a/1.png
printf '\xff\xd8\xff and so on' >set/a/2.jpg
printf 'dim batch = 1\nmodel m(x: u8[batch, 2, 2, 3]) { return y = x }\n' >image.net
P=("$NETC" predict image.net --device cpu -o y.npy --data)
without libspng 2 "set/a/1.png is a PNG image, and libspng.so.0 was not found (Debian: libspng0); install it" "${P[@]}" x=set
rm set/a/1.png
without libturbojpeg 2 "set/a/2.jpg is a JPEG image, and libturbojpeg.so.0 was not found (Debian: libturbojpeg0)" "${P[@]}" x=set
echo >set.tar
without libarchive 2 "set.tar is an archive, and libarchive.so.13 was not found (Debian: libarchive13)" "${P[@]}" x=set.tar
without libspng 0 "no  PNG images" "$NETC" doctor
without openblas 0 "run on generated code" "$NETC" doctor
if grep -q '^flags.* avx2' /proc/cpuinfo && "$NETC" doctor | grep -q '^yes OpenBLAS'; then # kernels of an older processor are not used
    expect 0 "runs as Prescott: not used" env OPENBLAS_CORETYPE=Prescott "$NETC" doctor
    expect 0 "" env OPENBLAS_CORETYPE=Prescott "$NETC" "${T[@]}" --log old.jsonl
    cmp -s <(sed 's/,"seconds.*//' old.jsonl) <(sed 's/,"seconds.*//' without.jsonl) && pass || fail "OpenBLAS's oldest kernels were used"
else
    skip "no OpenBLAS, or a processor without AVX2"
fi
finish
