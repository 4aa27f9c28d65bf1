#!/bin/bash
# Kernels of a model's own text (docs/language.md "Kernels of your own"): what is wrong with them is said or caught,
# files that hold them need nothing else, an edited text is compiled anew. What runs on a GPU runs on one made of the
# host (tests/shim); NVRTC, where it is, compiles the same text.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
cat >own.net <<'N'
extern fn doubled(x) from "own.cu" {
    out y: f32[shape(x)]
    launch doubled(x, y, dim(x, 0)) grid = 1, block = 32
    reference { return x * 2 }
} grad(dy) { return dy * 2 }

model m(x: f32[40]) {
    param p: f32[40] = 1
    return loss = sum(doubled(x * p) * x), each = doubled(x)
}

fn sgd(p, g) { p <- p - 0.1 * g }

train m {
    minimize loss
    update sgd
}

model fixed() { return z = doubled(cast(iota(5), f32) + 0.5) }
N
cat >own.cu <<'N'
__global__ void doubled(const float *x, float *y, int n)
{
    for (int i = threadIdx.x; i < n; i += 32) y[i] = 2 * x[i];
}
N
cat >own.c <<'N'
static float twice(float a) { return 2 * a; }
void doubled(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++) y[i] = twice(x[i]);
}
N
cp own.net right.net; cp own.cu right.cu; cp own.c right.c
sed 's/reference {/cpu "own.c"\n    &/' right.net >with_c.net

# -- on the CPU: the reference, or the model's C
expect 0 "z f32[5] 1 3 5 7 9" "$NETC" run own.net --entry fixed --device cpu
cp with_c.net own.net
expect 0 "z f32[5] 1 3 5 7 9" "$NETC" run own.net --entry fixed --device cpu
expect 0 "" "$NETC" check own.net --device cpu
expect 0 "doubled_" "$NETC" inspect own.net --target cpu
sed 's/2 \* a/2.001f * a/' right.c >own.c
expect 1 "WRONG output" "$NETC" check own.net --device cpu
sed 's/i < n/i <= n/' right.c >own.c
expect 1 "after the end of a temporary was written" "$NETC" check own.net --device cpu
sed 's/twice(x\[i\])/twice(x[i]/' right.c >own.c
expect 1 "own.c:4" "$NETC" run own.net --entry fixed --device cpu
rm own.c
expect 1 "own.net:4:9: error: cannot read 'own.c'" "$NETC" run own.net --entry fixed --device cpu
cp right.net own.net

# -- a wrong gradient
sed -i 's/return dy \* 2/return dy * 2.01/' own.net
expect 1 "BAD  p" "$NETC" check own.net --device cpu
sed 's/^} grad(dy).*/}/' right.net >own.net
expect 1 "own.net:9:23: error: doubled has no gradient" "$NETC" check own.net --device cpu; holds "an extern fn says its gradient itself"
cp right.net own.net

# -- the text forms
for stage in ir grad fused; do
    mkdir -p alone # without own.cu
    expect 0 "" "$NETC" --emit $stage --target cuda own.net; cp "$W/.out" alone/$stage.net
    (cd alone && "$NETC" --emit $stage --target cuda $stage.net 2>&1 | sed 's/  #.*//' >again)
    diff <(sed 's/  #.*//' alone/$stage.net) alone/again >diff && pass || fail "the dump of $stage: $(head -5 diff)"
done
expect 0 "" "$NETC" --emit cuda own.net; holds '#line 1 "own.cu"'; holds "for (int i = threadIdx.x; i < n; i += 32) y[i] = 2 * x[i];"
expect 0 "" "$NETC" --emit plan --target cuda own.net; holds "doubled_"
name=$(grep -o 'doubled_[0-9a-f]*' "$W/.out" | head -1)
expect 0 "doubled of extern fn doubled" "$NETC" inspect own.net --target cuda "$name"; holds 'i < n; i += 32) y[i] = 2 * x[i];'
expect 1 "$name is the model's own text: edit own.cu" "$NETC" inspect own.net --eject "$name"
expect 0 "a kernel of your own reads and writes memory" "$NETC" inspect own.net --target cuda --why

# -- NVRTC
if "$NETC" doctor | grep -q '^yes NVRTC'; then
    expect 0 "" "$NETC" own.net -o own.bin --target cuda --arch sm_80,sm_90,sm_100
    sed 's/2 \* x\[i\]/2 * x[i/' right.cu >own.cu
    expect 1 "own.cu does not compile for sm_90, called in own.net:9" "$NETC" own.net -o bad.bin --target cuda --arch sm_90; holds "own.cu(3): error: expected a"
    sed 's/float \*y/double *y/' right.cu >own.cu
    expect 1 "launch of doubled(3): error: argument of type" "$NETC" own.net -o bad.bin --target cuda --arch sm_90
    cp right.cu own.cu; sed 's/grid = 1, block = 32/&, shared = 240000/' right.net >own.net
    expect 1 "'doubled' asks for 240000 bytes of shared memory; a block of sm_90 has 232448" "$NETC" own.net -o bad.bin --target cuda --arch sm_90
    [ ! -e bad.bin ] && pass || fail "a file was left of what does not compile"
    cp right.net own.net
    # an edited text is another kernel
    expect 0 "" "$NETC" inspect own.net --target cuda; grep -o 'doubled_[0-9a-f]*' "$W/.out" | sort -u >before
    sed 's/2 \* x/x[i] + x/' right.cu >own.cu
    expect 0 "" "$NETC" inspect own.net --target cuda; grep -o 'doubled_[0-9a-f]*' "$W/.out" | sort -u >after
    [ -s before ] && ! cmp -s before after && pass || fail "the edited kernel has the same name"
    cp right.cu own.cu
else
    skip "no NVRTC: own CUDA text is not compiled"
fi

# -- on a device made of the host
if ! command -v g++ >/dev/null; then
    skip "no g++: the CUDA text cannot be run on the host"
    finish
fi
on_shim=(env "LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$NETC")
expect 0 "z f32[5] 1 3 5 7 9" "${on_shim[@]}" run own.net --entry fixed --device cuda:0
expect 0 "" "${on_shim[@]}" check own.net --device cuda:0
expect 0 "" "${on_shim[@]}" own.net -o own.bin --target cuda --arch sm_90
mkdir -p moved; cp own.bin moved/
expect 0 "z f32[5] 1 3 5 7 9" "${on_shim[@]}" run moved/own.bin --entry fixed --device cuda:0
rm own.cu
expect 0 "z f32[5] 1 3 5 7 9" "${on_shim[@]}" run moved/own.bin --rebuild --entry fixed --device cuda:0
sed 's/2 \* x\[i\]/x[i] + 2 * x[i]/' right.cu >own.cu
expect 0 "z f32[5] 1.5 4.5 7.5 10.5 13.5" "${on_shim[@]}" run own.net --entry fixed --device cuda:0 # not what the cache has of before
# broken: CHANGE WHAT_IS_SAID
while IFS='|' read -r change said; do
    sed "$change" right.cu >own.cu
    "${on_shim[@]}" check own.net --device cuda:0 --cache-dir '' >broken 2>&1; code=$?
    [ $code -ne 0 ] && [ $code -lt 3 ] && grep -qF -- "$said" broken && pass || fail "'$change' is not caught (exit $code): $(tail -3 broken)"
done <<'B'
s/2 \* x\[i\]/2.001f * x[i]/|WRONG output of train (fused): loss
s/i < n;/i < n + 200;/|device memory at byte
s/y\[i\] = /y[0] = /|race in device memory
s/i < n;/i < n - 1;/|loss is not finite
B
# an elementwise function whose gradient is another one's
cat >element.net <<'N'
fn half(a) = cuda "a * 0.5f" reference a * 0.5 grad "0.51f"
model m(x: f32[7]) { return y = half(x), slope = grad(sum(half(x)), x) }
N
expect 1 "WRONG output of m (fused): slope" "${on_shim[@]}" check element.net --device cuda:0 --cache-dir ''
finish
