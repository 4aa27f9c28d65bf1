#!/bin/bash
# A product that the matmul library or a generated kernel may compute: what is chosen is measured, kept, used
# again, and asked for by --locked. A library without an algorithm, or a slow one, is played by the shim.
. "$(dirname "$0")/../lib.sh"
unset SHIM_CACHE # each search compiles what it tries, as on a GPU
if ! command -v g++ >/dev/null; then
    skip "no g++: nothing runs on the shim"
    finish
fi
export LD_LIBRARY_PATH=$BUILD/shim
cat >two.net <<'NET'
use nn
model two(a: bf16[16, 32], b: bf16[24, 32], bias: bf16[24]) {
    return y = cast(gelu_tanh(cast(matmul(a, transpose(b)) + bias, f32)), bf16)
}
NET
# The kernel's schedule is the cost model's, written down: which one a search finds depends on how fast the machine is.
{
    echo '# netc tune 1'
    "$NETC" inspect two.net --target cuda --knobs 2>/dev/null | sed -n '/^kernel y_dot_sigmoid/s/\( @ host shim\)\?\(: tile .*wgmma=no\)/ @ host shim\2/p'
} >schedule.tune
grep -q ' @ host shim: tile ' schedule.tune && pass || fail "no product of few rows in: $("$NETC" inspect two.net --target cuda --knobs)"
# tuned WORD VARIABLE=VALUE...: chooses between the library and that kernel; the product's line then says WORD.
tuned() {
    local want=$1; shift
    cp schedule.tune two.net.tune
    expect 0 "every kernel already has a schedule" env "$@" "$NETC" tune two.net --device cuda:0 --budget 1 --cache-dir ''
    [[ $(grep -c '^gemm ' two.net.tune) = 1 ]] && pass || fail "not one product in: $(cat two.net.tune)"
    grep -q "^gemm bf16bf16bf16 nt 16 24 32 1 epilogue 5 .* or kernel [0-9a-f]\{16\} @ .*: $want" two.net.tune && pass ||
        fail "not '$want': $(grep '^gemm' two.net.tune)"
}
check() { expect "$1" "$2" "$NETC" check two.net --device cuda:0 --cache-dir ''; ! grep -qE 'WRONG|BAD' "$W/.out" && pass || fail "wrong: $(cat "$W/.out")"; }
ran() { expect "$1" "$2" "$NETC" bench two.net --device cuda:0 --cache-dir '' "${@:3}"; }

# no algorithm, a slow library, a fast one
tuned 'kernel$' SHIM_LT=none
ran 0 "step" --locked # by the kernel, though the library has an algorithm again
check 0 "kernels on"
tuned 'kernel  # library [0-9.]* us, kernel [0-9.]* us$' SHIM_LT=slow
cp two.net.tune kernel.tune
expect 0 "y_dot_sigmoid" "$NETC" inspect two.net --target sm_90 --why
grep -A1 '^  y: y_dot_sigmoid' "$W/.out" | grep -q 'measured: library [0-9.]* us, kernel [0-9.]* us' && pass || fail "no times: $(cat "$W/.out")"
check 0 "kernels on"
# what this GPU has and not every one is left out where none is known
expect 0 "wgmma=no is a schedule of other GPUs than sm_90 as it is compiled for here; the line is ignored" env -u LD_LIBRARY_PATH "$NETC" two.net --emit cuda
tuned '[0-9a-f]\{128\} 0  # library '
ran 0 "step" --locked

# Split sums, which the library proposes where it may use 32 MiB, are joined in the workspace (scheme 2), not added in place
# (scheme 1), in an order that varies.
tuned '0\{12\}5e1f0\{16\}0\{15\}20\{80\} 0  # library ' SHIM_LT=splits
ran 0 "step" --locked

# an option that the library does not propose is searched for where a product takes long
cat >long.net <<'NET'
model long(a: bf16[8, 64], b: bf16[8, 64]) { return y = matmul(a, transpose(b)), z = exp(cast(a, f32)) }
NET
expect 0 "wrote long.net.tune" env SHIM_LT=options "$NETC" tune long.net --device cuda:0 --budget 1 --cache-dir ''
grep -q '^gemm bf16bf16bf16 nt 8 8 64 .*: 0000000000005e1f0000000000000005[0-9a-f]* 0' long.net.tune && pass ||
    fail "not the fast option: $(cat long.net.tune)"

# a product of an input, which may be the caller's own pointer, and the same of a temporary are one choice
cat >both.net <<'NET'
model both(a: bf16[8, 64], b: bf16[8, 64]) {
    return y = matmul(a, transpose(b)), z = matmul(sort(a), transpose(b))
}
NET
expect 0 "wrote both.net.tune" env SHIM_LT=options "$NETC" tune both.net --device cuda:0 --budget 1 --cache-dir ''
[[ $(grep -c '^gemm ' both.net.tune) = 1 ]] && pass || fail "not one product in: $(cat both.net.tune)"

# what was measured beside another kernel is no choice here
sed -i 's/ or kernel [0-9a-f]*/ or kernel 0123456789abcdef/' two.net.tune
ran 0 "step"
ran 1 "what computes matmul y, two.net:3 is not in the tuning file: gemm bf16bf16bf16 nt 16 24 32 1" --locked
holds "'netc tune' measures it"
expect 0 "every kernel already has a schedule" "$NETC" tune two.net --device cuda:0 --budget 1 --cache-dir ''
[[ $(grep -c '^gemm ' two.net.tune) = 1 ]] && pass || fail "the old line stayed: $(cat two.net.tune)"
ran 0 "step" --locked

# a kernel that computes something else is not timed, however fast: here each, whatever its schedule
rm two.net.tune
SHIM_LT=slow SHIM_CUT='return nc_rcp_16(1 +=>return 3 + nc_rcp_16(1 +' expect 0 "warning: kernel y_dot_sigmoid" "$NETC" tune two.net --device cuda:0 --budget 1 --cache-dir ''
holds "two.net:3 does not compute what the matmul library computes and is not used: this is a bug in netc, please report it"
grep -q '^gemm .*: [0-9a-f]\{128\} 0$' two.net.tune && pass || fail "not the library: $(cat two.net.tune)"
# a check says so, the second one, too: nothing was kept of the first
rm two.net.tune
for turn in 1 2; do
    SHIM_LT=slow SHIM_CUT='return nc_rcp_16(1 +=>return 3 + nc_rcp_16(1 +' expect 1 'WRONG kernel y_dot_sigmoid' "$NETC" check two.net --device cuda:0 --cache-dir kept
    holds '(fused): does not compute what the library computes'
done
# one that reads what is not there ends it, by name, before anything else fails of it
SHIM_CUT='return nc_rcp_16(1 +=>return *(volatile float *)8 + nc_rcp_16(1 +' expect 2 "read of an address that is neither" "$NETC" tune two.net --device cuda:0 --budget 1 --cache-dir ''
holds "kernel y_dot_sigmoid"

# A kernel that looks its operands up (an embedding, through a data set's table of rows and the cursor) is measured on
# indices and rows that are there. Of a device of one multiprocessor, where this product takes long.
cat >looked_up.net <<'NET'
use optim
const width = 384
const T = 96
dim batch = 4
model looked_up(tokens: i32[batch, T] in 0..50, y: f32[batch, T, width]) {
    param wte: f32[50, width] = normal(1) frozen
    param wpe: f32[T, width] = normal(1) frozen
    param w: bf16[width, width] = normal(0.05) frozen
    param v: bf16[width, 8] = normal(0.05) frozen
    param b: f32[8] = 0
    x = wte[tokens] + wpe + cast(matmul(cast(y, bf16), w), f32)
    z = matmul(cast(tanh(x), bf16), v)
    return loss = mean(square(cast(z, f32) * b))
}
train looked_up {
    minimize loss
    update sgd(0.1)
}
NET
SHIM_ARCH=80 SHIM_UNITS=1 expect 0 step "$NETC" bench looked_up.net --device cuda:0 --cache-dir looked --entry eval --steps 1 --repeats 1 --compiles 0
! grep -qE 'warning|note|error' "$W/.out" && pass || fail "measured on operands that are none: $(cat "$W/.out")"
grep -rqaE 'library [0-9.]+ us, kernel [0-9.]+ us' looked && pass || fail "no kernel took part"

# a kernel that does not compile leaves the library to it; without either there is nothing
cp kernel.tune two.net.tune
export SHIM_REFUSE=nc_multiply_b
ran 0 "does not compile for sm_90: error: the test wants it so; the matmul library is used without it"
ran 1 "is not in the tuning file" --locked
expect 0 "wrote other.tune" "$NETC" tune two.net --device cuda:0 --budget 1 --tune-file other.tune --cache-dir ''
grep -q '^gemm [^@]*align [0-9 ]* @ .*: [0-9a-f]\{128\} 0$' other.tune && pass || fail "not the library: $(cat other.tune)"
SHIM_LT=none ran 2 "has no algorithm for matmul y"

# a candidate of the search that does not compile is left out, by name, and the search goes on
unset SHIM_REFUSE
echo 'model row(x: f32[64, 96]) { return y = exp(x - max(x, 1, keep = true)) }' >row.net
SHIM_REFUSE='launch_bounds__(64)' expect 0 "threads=64 cluster=1 resident=0: skipped: NVRTC" "$NETC" tune row.net --device cuda:0 --budget 1200 --cache-dir ''
holds "does not compile"
grep -q '^kernel y_max_exp' row.net.tune && ! grep -q 'threads=64 ' row.net.tune && pass || fail "row.net.tune: $(cat row.net.tune)"

# a kernel that the evaluator does not agree with before anything is tuned is told
echo 'model wrong(x: f32[64, 96]) { return y = sum(x, 1) }' >wrong.net
SHIM_CUT='nc_shuffle(v, m)=>nc_shuffle(v, m / 2)' expect 0 "as generated: its result differs from the evaluator's" "$NETC" tune wrong.net --device cuda:0 --budget 1 --cache-dir ''
holds 'other schedules are compared with it: this is a bug in netc, please report it'
expect 0 'wrote wrong.net.tune' "$NETC" tune wrong.net --device cuda:0 --budget 1 --cache-dir ''
! grep -q 'as it is generated' "$W/.out" && pass || fail "of a right kernel: $(cat "$W/.out")"
finish
