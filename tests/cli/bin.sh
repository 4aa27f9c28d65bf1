#!/bin/bash
# model.bin where there is no compiler: whatever its code can answer is answered, and what it cannot
# asks for one.
. "$(dirname "$0")/../lib.sh"
same() { cmp -s "$1" "$2" && pass || fail "$1 and $2 differ"; }
# array FILE TYPE SHAPE BYTES: a .npy, the bytes as printf writes them
array() { { printf '\x93NUMPY\x01\x00\x76\x00'; printf "%-117s\n" "{'descr': '$2', 'fortran_order': False, 'shape': $3, }"; printf "$4"; } >"$1"; }
ONE='\x00\x00\x80\x3f' TWO='\x00\x00\x00\x40' I1='\x01\x00\x00\x00'
array x.npy '<f4' '(4, 2)' "$ONE$TWO$TWO$ONE$ONE$ONE$TWO$TWO"
array label.npy '<i4' '(4,)' "$I1$I1$I1$I1"
cat >m.net <<'NET'
use nn
dim batch = 4
const shift = 0.5
const sizes = [3, 2]
setting k = 2
model m(x: f32[batch, 2], label: i32[batch] in 0..2) {
    hidden = linear(x, sizes[0]) as fc1
    logits = linear(relu(hidden) + shift, sizes[1]) as fc2
    loss = mean(cross_entropy(logits, label)) * k
    return loss, logits
}
NET
X=(--input x=x.npy --device cpu) BOTH=(--input x=x.npy --input label=label.npy --device cpu)
alone() { expect "$1" "$2" env CC=/nonexistent "$NETC" "${@:3}" --cache-dir ''; }
COMPILER="CC is '/nonexistent'"
expect 0 "" "$NETC" m.net -o m.bin --target cpu -q
expect 0 "loss f32[]" "$NETC" run m.net "${BOTH[@]}" -q
cp .out all
alone 0 "" run m.bin "${BOTH[@]}" -q
same all .out

# -- definitions that say what the file says
for d in batch=4 batch=2*2 shift=0.5 'sizes=[3, 2]' k=2 k=2.0; do
    alone 0 "" run m.bin "${BOTH[@]}" -q -D "$d"
    same all .out
done
alone 0 "" run m.bin "${BOTH[@]}" -q -D k=2 -D batch=4 -D shift=0.5
for d in batch=2 shift=1 shift=-0.5 'sizes=[4, 2]' k=3; do alone 2 "$COMPILER" run m.bin "${BOTH[@]}" -D "$d"; done
alone 2 "$COMPILER" run m.bin "${BOTH[@]}" -D k=2 -D shift=1
alone 1 "did you mean 'batch'" run m.bin "${BOTH[@]}" -D batc=4
expect 0 "" "$NETC" m.net -D batch=4 -D shift=2 -o own.bin --target cpu -q
alone 0 "" run own.bin "${BOTH[@]}" -D shift=2
alone 2 "$COMPILER" run own.bin "${BOTH[@]}" -D shift=0.5
# 1 and 1.0 compute differently
printf 'const n = 7\nmodel m(x: f32[4, 2]) {\n    return y = x * (n / 2)\n}\n' >kind.net
expect 0 "" "$NETC" kind.net -o kind.bin --target cpu -q
alone 0 "" run kind.bin "${X[@]}" -D n=7
alone 2 "$COMPILER" run kind.bin "${X[@]}" -D n=7.0
finish
