#!/bin/bash
# Sums by index of which a few places have a large share (codegen/cuda/bins_ordered.c adds up chunks of their updates first), on a device
# of one multiprocessor, which sorts updates where that pays for few of them: all updates to one place, one place among uniform ones,
# Zipf's law, and runs of one place that begin and end at a chunk's edge, just before and just after it. Random sizes.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
export SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cat >hot.net <<'N'
const n = 8000
const p = 26000
const c = 70
const before = 256     # updates of places below the one with [long] of them, which is the middle one
const long = 1024
const mixed = 7919     # a prime that does not divide n: the updates are not in the order of their places
fn number() { return cast(cast(iota(n), i64) * mixed % n, i32) }
fn any() { return cast(uniform([n], 0, p), i32) % p }
fn zipf() { return cast(pow(cast(p, f32), uniform([n], 0, 0.999)), i32) % p }
fn run() {
    k = number()
    return where(k < before, k * 31 % (p // 2), where(k < before + long, p // 2, p // 2 + 1 + k % (p // 2 - 1)))
}
model one(x: f32[p, c], u: f32[n, c]) { return y = scatter_add(x, iota(n) * 0 + p // 3, u) }
model hub(u: f32[n, c], w: f32[n]) {
    i = where(uniform([n], 0, 1) < 0.4, p - 1, any())
    return y = scatter_add(zeros([p, c]), i, u * expand(w, -1))
}
model steep(x: bf16[p, c], u: bf16[n, c]) { return y = scatter_add(x, zipf(), u) }
model edges(x: f32[p, c], u: f32[n, c]) { return y = scatter_add(x, run(), u) }
model wide(u: f64[n, c]) { return y = scatter_add(zeros([p, c], f64), cast(run(), i64), u) }
N
RANDOM=${SEED:=$((10#$(date +%j)))} # another day, other sizes
check() { # SIZES...: both kernels of each sum are there, and right
    expect 0 "kernels on cuda:0" "$NETC" check hot.net --device cuda:0 --cache-dir '' "$@"
    local chunks
    chunks=$("$NETC" inspect hot.net --why --cache-dir '' "$@" 2>&1 | grep -c 'chunks of [0-9]* updates of one place')
    [ "$chunks" = 5 ] && pass || fail "SEED=$SEED $*: sums of chunks: $chunks of 5"
}
edge() { echo $((128 * ($1 + RANDOM % 5) + RANDOM % 3 - 1)); } # LEAST: a number of updates about a multiple of a chunk
check -D before="$(edge 0 | tr -d -)" -D long="$(edge 3)"
check -D n=$((9000 + RANDOM % 2000)) -D p=$((14000 + RANDOM % 3000)) -D c=$((129 + RANDOM % 140)) -D before="$(edge 1)" -D long="$(edge 8)"
for c in 1 $((2 + RANDOM % 25)); do # several teams a warp
    check -D n=$((16500 + RANDOM % 2000)) -D p=$((60000 + RANDOM % 4000)) -D c="$c" -D before="$(edge 1)" -D long="$(edge 4)"
done
finish
