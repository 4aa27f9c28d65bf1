#!/bin/bash
# Products with an uneven number of result columns (passes/fuse/fuse_pad.c) on a device of one multiprocessor, which few results fill: if
# the result is an output, it is stored as it is and not copied from a padded one, with every kernel that can compute it. Sizes that nobody chose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
if ! command -v g++ >/dev/null && ! command -v "${SHIM_CXX:-}" >/dev/null; then
    skip "no g++: the CUDA text cannot be run on the host"
    finish
fi
export SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cat >uneven.net <<'N'
use nn
use init
const v = 302
const k = 72
dim n = 180
# A head, as language models have it; with the row's largest, which reads the result, too; of a batch of rows; kept in a cell.
model head(x: f32[n, k]) { return y = linear(x, v) as out }
model largest(x: f32[3, n, k]) {
    logits = linear(x, v) as out
    return likeliest = argmax(logits, -1), logits
}
model rounded(x: f32[n, k], w: f32[v, k]) { return y = cast(relu(matmul(x, transpose(w))), bf16) }
model kept(x: f32[n, k], w: f32[v, k]) {
    state s: f32[n, v] = 0
    s <- matmul(x, transpose(w)) * 2
    return y = sum(s)
}
N
RANDOM=${SEED:=$((10#$(date +%j)))} # another day, other sizes
for size in "" "-D n=$((130 + RANDOM % 200)) -D v=$((250 + RANDOM % 200)) -D k=$((8 * (2 + RANDOM % 20)))"; do
    # shellcheck disable=SC2086
    expect 0 "kernels on cuda:0" "$NETC" check uneven.net --device cuda:0 --cache-dir '' --precision bf16 $size
done
# One product and no copy; where only a loss reads the result, a padded one.
expect 0 "" "$NETC" inspect uneven.net -e head --order --cache-dir '' --precision bf16
grep -q "180x302x72" "$W/.out" && pass || fail "the product of 302 columns is not there: $(cat "$W/.out")"
cat >loss.net <<'N'
model loss(x: f32[180, 72], w: f32[302, 72]) { return y = mean(log(sum(exp(matmul(x, transpose(w))), -1))) }
N
expect 0 "" "$NETC" inspect loss.net --order --cache-dir '' --precision bf16
grep -q "180x304x72" "$W/.out" && pass || fail "the product that only a loss reads is not padded: $(cat "$W/.out")"
finish
