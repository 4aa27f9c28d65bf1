#!/bin/bash
# Sums by index of which a few places have a large share: chunks of updates are added up first, sorted ones (codegen/cuda/bins_ordered.c)
# and others (bins_cuda.c). All updates to one place, one place among uniform ones, Zipf's law, and runs of one place that begin and end
# at a chunk's edge, just before and just after it. Random sizes.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
export LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cat >hot.net <<'N'
const n = 8000
const p = 26000
const c = 70
const before = 256     # updates of places below the one with [long] of them, which is the middle one
const long = 1024
const mixed = 7919     # a prime that does not divide n: the updates are not in the order of their places
fn number() { return cast(cast(iota(n), i64) * mixed % n, i32) }
fn any(m) { return cast(random_bits([n]), i64) % m } # (no rounding: it would leave open which place it is)
fn zipf() { return cast(p // (1 + any(p)) - 1, i32) } # half of them 0, a sixth 1, ...
fn run() {
    k = number()
    return where(k < before, k * 31 % (p // 2), where(k < before + long, p // 2, p // 2 + 1 + k % (p // 2 - 1)))
}
model one(x: f32[p, c], u: f32[n, c]) { return y = scatter_add(x, iota(n) * 0 + p // 3, u) }
model hub(u: f32[n, c], w: f32[n]) {
    i = where(any(5) < 2, p - 1, any(p))
    return y = scatter_add(zeros([p, c]), i, u * expand(w, -1))
}
model steep(x: bf16[p, c], u: bf16[n, c]) { return y = scatter_add(x, zipf(), u) }
model edges(x: f32[p, c], u: f32[n, c]) { return y = scatter_add(x, run(), u) }
model wide(u: f64[n, c]) { return y = scatter_add(zeros([p, c], f64), cast(run(), i64), u) }
N
RANDOM=$SEED # another day, other sizes
check() { # WHY SIZES...: both kernels of each sum are there, and right
    today || return 0 # (a fifth each day)
    local why=$1; shift
    expect 0 "kernels on cuda:0" "$NETC" check hot.net --device cuda:0 --cache-dir '' "$@"
    local chunks
    chunks=$("$NETC" inspect hot.net --why --cache-dir '' "$@" 2>&1 | grep -c "$why")
    [ "$chunks" = 5 ] && pass || fail "SEED=$SEED $*: sums of chunks: $chunks of 5"
}
edge() { echo $((128 * ($1 + RANDOM % 5) + RANDOM % 3 - 1)); } # LEAST: a number of updates about a multiple of a chunk
export SHIM_UNITS=1 # a device that sorts updates where that pays for few of them
sorted='chunks of [0-9]* updates of one place'
check "$sorted" -D before="$(edge 0 | tr -d -)" -D long="$(edge 3)"
check "$sorted" -D n=$((9000 + RANDOM % 2000)) -D p=$((14000 + RANDOM % 3000)) -D c=$((129 + RANDOM % 40)) -D before="$(edge 1)" -D long="$(edge 8)"
# several teams a warp
check "$sorted" -D n=$((34000 + RANDOM % 2000)) -D p=$((130000 + RANDOM % 4000)) -D c=$((4 + RANDOM % 4)) -D before="$(edge 1)" -D long="$(edge 4)"
check "$sorted" -D n=$((16500 + RANDOM % 2000)) -D p=$((60000 + RANDOM % 4000)) -D c=$((15 + RANDOM % 12)) -D before="$(edge 1)" -D long="$(edge 4)"
frequent='frequent places of'
check "$frequent" -D n=$((8500 + RANDOM % 3000)) -D p=$((600 + RANDOM % 160)) -D c=$((33 + RANDOM % 32)) -D before="$(edge 1)" -D long="$(edge 8)" # two ranges
for c in 1 $((2 + RANDOM % 30)); do # (of few columns, a block has many places)
    check "$frequent" -D n=$((8300 + RANDOM % 900)) -D p=$(((31000 + RANDOM % 2000) / c)) -D c="$c" -D before="$(edge 1)" -D long="$(edge 4)"
done
unset SHIM_UNITS
for c in $((65 + RANDOM % 40)) $((257 + RANDOM % 50)); do
    check "$frequent" -D n=$((4096 + RANDOM % 900)) -D p=$((2500 + RANDOM % 900)) -D c="$c" -D before="$(edge 1)" -D long="$(edge 4)"
done
# Sums of integers (passes/scatter_integers.c): two updates of a place have a sum that is no f32, and with its value they have one. (No
# bound of the error would be finite there.)
cat >within.net <<'N'
const n = 9007
const p = 8009
model within() {
    return top = max(abs(scatter_add(full([p], 3e38), iota(n) * 7919 % p, full([n], -3e38))))
}
N
expect 0 "top f32[] 3e+38" "$NETC" run within.net --device cuda:0 --cache-dir ''
finish
