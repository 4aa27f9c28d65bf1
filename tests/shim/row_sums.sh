#!/bin/bash
# Sums by indices within rows, of so many rows that the updates are sorted (passes/scatter.c): each row by itself where its indices are
# known to be within it, all of them otherwise. Both give the bits of a CPU, which adds in the order of the updates.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
export SHIM_UNITS=1 # a device that sorts updates where that pays for few of them
cat >rows.net <<'END'
const rows = 40000
const places = 12
const k = 8
fn terms() { return uniform([rows, k], -1, 1), below(k) }
fn below(k) { return cast(uniform([rows, k - 1], 0, places), i32) % places }

model taken() {
    w, index = terms()
    x = uniform([rows, places], -1, 1)
    found = take_along_axis(x, concat([index, zeros([rows, 1], i32)], -1))
    return y = grad(sum(found * w), x)
}
model far() {
    w, index = terms()
    flat = concat([index, full([rows, 1], places, i32)], -1) + expand(iota(rows) * places, 1)
    return y = scatter_add(zeros([rows * places + 1]), reshape(flat, [-1]), reshape(w, [-1]))
}
END
for entry in taken far; do
    LD_LIBRARY_PATH=$SHIM expect 0 "" "$NETC" run -q rows.net --entry $entry --device cuda:0 --cache-dir '' -o y=$entry.npz
    expect 0 "" "$NETC" run -q rows.net --entry $entry --device cpu --cache-dir '' -o y=$entry.cpu.npz
    cmp $entry.npz $entry.cpu.npz && pass || fail "$entry has other bits"
done
sorts() { LD_LIBRARY_PATH=$SHIM "$NETC" inspect "${4:-rows.net}" -e "$1" --cache-dir '' --order "${@:2:2}" | grep -cE '(argsort|lt)[a-z_]*_[0-9a-f]{8} '; } # kernels
[ "$(sorts taken)" = 1 ] && pass || fail "rows are not sorted by themselves: $(sorts taken) kernels"
[ "$(sorts taken --target sm_90)" = 0 ] && pass || fail "sums of f32 are not by atomics on a large device"
sed '/^model far/,/^}/d; s/uniform(\[rows, [a-z]*\], -1, 1)/cast(&, f64)/' rows.net >wide.net
[ "$(sorts taken --target sm_90 wide.net)" = 1 ] && pass || fail "rows of f64 are not sorted by themselves on a large device"
[ "$(sorts far)" -gt 1 ] && pass || fail "indices beyond their rows are sorted by rows"
finish
