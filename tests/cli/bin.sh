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

# -- some of the outputs: inputs that they do not need are not asked for
expect 0 "" "$NETC" run m.net "${X[@]}" -o logits=want.npy -q
alone 0 "" run m.bin "${X[@]}" -o logits=logits.npy -q
same want.npy logits.npy
alone 0 "note: input 'label' of 'm' is not needed" run m.bin "${BOTH[@]}" -o logits=logits.npy
same want.npy logits.npy
alone 0 '{"logits":' run m.bin "${X[@]}" -o logits=logits.npy --json -q
grep -q loss .out && fail "an output that was not asked for: $(cat .out)" || pass
expect 0 "" "$NETC" run m.net "${BOTH[@]}" -o loss=want.npy -q
alone 0 "" run m.bin "${BOTH[@]}" -o loss=loss.npy -q
same want.npy loss.npy
alone 1 "input 'label' of 'm' has no value" run m.bin "${X[@]}" -o loss=loss.npy
alone 1 "did you mean 'logits'" run m.bin "${X[@]}" -o logit=l.npy
alone 1 "'m' has no output 'q'" run m.bin "${X[@]}" -o q=l.npy
# What a check or a state reads is needed whatever is asked for; so is what an index is computed
# from, which zeros in its place could put out of range.
cat >reads.net <<'NET'
model checked(x: f32[4, 2], label: i32[4]) {
    assert min(label) > 0, "a label of 0"
    return y = x * 2, z = label + 1
}
model kept(x: f32[4, 2], label: i32[4]) {
    state seen: f32[] = 0
    seen <- seen + sum(cast(label, f32))
    return y = x * 2, z = label + 1
}
model computed(x: f32[4, 2], label: i32[4]) {
    return y = x * 2, z = x[label - 1]
}
model ranged(x: f32[4, 2], label: i32[4] in 1..4) {
    return y = x * 2, z = x[label], again = x[3] / cast(label, f32)[0]
}
model read(x: f32[4, 2], label: i32[4]) {
    y = x * 2
    z = x[label]
    return y, z, a = y + 1, b = z * 2
}
model carried(x: f32[4, 2], label: i32[4]) {
    s = sum(x)
    loop i in 0..3 carry s {
        s = s * cast(label[0], f32)
    }
    return y = x * 2, s
}
NET
expect 0 "" "$NETC" reads.net -o reads.bin --target cpu -q
for m in checked kept computed; do
    alone 1 "input 'label' of '$m' has no value" run reads.bin --entry $m "${X[@]}" -o y=y.npy
    alone 0 "" run reads.bin --entry $m "${BOTH[@]}" -o y=y.npy
done
expect 0 "" "$NETC" run reads.net --entry ranged "${X[@]}" -o y=want.npy -q
for m in ranged read carried; do
    alone 0 "" run reads.bin --entry $m "${X[@]}" -o y=y.npy
    same want.npy y.npy
done
alone 0 "" run reads.bin --entry read "${X[@]}" -o y=y.npy -o a=a.npy
alone 1 "input 'label' of 'read' has no value" run reads.bin --entry read "${X[@]}" -o y=y.npy -o b=b.npy
alone 1 "input 'label' of 'carried' has no value" run reads.bin --entry carried "${X[@]}" -o s=s.npy
alone 1 "several models" run reads.bin "${X[@]}" -o y=y.npy

# -- other batches
array x1.npy '<f4' '(1, 2)' "$TWO$ONE"
array label1.npy '<i4' '(1,)' "$I1"
array x3.npy '<f4' '(3, 2)' "$ONE$ONE$ONE$TWO$TWO$TWO"
SMALL=(--input x=x1.npy --input label=label1.npy --device cpu)
expect 0 "" "$NETC" run m.net "${SMALL[@]}" -q
cp .out small
expect 0 "" "$NETC" m.net -o many.bin --target cpu -q --batch 1,2,4
alone 0 "" run many.bin "${SMALL[@]}" -q
same small .out
alone 0 "" run many.bin "${SMALL[@]}" -q -D batch=1 -D k=2
same small .out
alone 0 "" run many.bin "${BOTH[@]}" -q
same all .out
alone 0 "" run many.bin --input x=x1.npy --device cpu -o logits=one.npy -q
expect 0 "" "$NETC" run m.net --input x=x1.npy --device cpu -o logits=want.npy -q
same want.npy one.npy
alone 2 "$COMPILER" run many.bin --input x=x3.npy --device cpu -o logits=l.npy
holds "many.bin: its code is for batch=4, batch=2, batch=1, not for batch=3; 'netc MODEL -o FILE --batch 3'"
# predictions: the last examples by the batches that there are
array x7.npy '<f4' '(7, 2)' "$ONE$ONE$ONE$TWO$TWO$TWO$ONE$TWO$TWO$ONE$ONE$ONE$TWO$ONE"
digits4() { awk -F, '{ for (i = 1; i <= NF; i++) printf "%.4f ", $i; print "" }' "$1"; } # (sums of other sizes may round differently)
expect 0 "" "$NETC" predict m.net --data x=x7.npy --device cpu -o logits=want.csv -q
alone 0 "" predict many.bin --data x=x7.npy --device cpu -o logits=seven.csv -q
digits4 want.csv >want && digits4 seven.csv >seven && [ "$(wc -l <want)" = 7 ] && pass || fail "predictions: $(cat want)"
same want seven
alone 2 "its code is for batch=4, not for batch=3" predict m.bin --data x=x7.npy --device cpu -o logits=seven.npy
alone 2 "its code is for batch=4, batch=2, batch=1, not for batch=7" run many.bin "${BOTH[@]}" -D batch=7 -D k=2
alone 2 "$COMPILER" run many.bin "${SMALL[@]}" -D k=3
alone 2 "$COMPILER" run m.bin "${SMALL[@]}"
holds "its code is for batch=4, not for batch=1; 'netc MODEL -o FILE --batch 1'"
alone 2 "its code is for other values than those given" run m.bin "${BOTH[@]}" -D shift=1
alone 2 "$COMPILER" run m.bin "${BOTH[@]}" --rebuild
grep -q "its code is" .out && fail "of a rebuild that was asked for: $(cat .out)" || pass
expect 0 "note: many.bin: it has no code for batch=3; compiling its source" "$NETC" run many.bin --input x=x3.npy --device cpu -o logits=l.npy
alone 1 "input 'x' of 'm' is f32[4, 2], and x1.npy holds f32[1, 2]" run many.bin "${SMALL[@]}" -D batch=4
# written again, they are still there; the one that was asked for is its own now
alone 0 "" many.bin -D batch=1 -o again.bin --target cpu -q
alone 0 "" run again.bin "${SMALL[@]}" -q
same small .out
alone 0 "" run again.bin "${BOTH[@]}" -q
same all .out
for list in 0 1, a -1 ,1 1:2 ''; do expect 1 "--batch needs sizes" "$NETC" m.net -o q.bin --batch "$list"; done
expect 1 "-o FILE" "$NETC" m.net --batch 1
printf 'model m(x: f32[4, 2]) {\n    return y = x * 2\n}\n' >fixed.net
expect 1 "no model has a batch to choose" "$NETC" fixed.net -o q.bin --batch 1
printf 'dim n = 4\ndim k = 4\nmodel a(x: f32[n, 2]) {\n    return y = x * 2\n}\nmodel b(x: f32[k, 2]) {\n    return y = x * 2\n}\n' >two.net
expect 1 "the models have different batches, 'n' and 'k'" "$NETC" two.net -o q.bin --batch 1

# The last examples of an evaluation are a batch of their own.
digits 1000
TEST=(--data "image=$D/t10k-images-idx3-ubyte" --data "label=$D/t10k-labels-idx1-ubyte" --device cpu)
expect 0 "" "$NETC" "$ROOT/samples/mnist/mlp.net" -o mlp.bin --target cpu -q --batch 104,100
expect 0 "" "$NETC" eval "$ROOT/samples/mnist/mlp.net" "${TEST[@]}" -q
cp .out want
alone 0 "" eval mlp.bin "${TEST[@]}" -q
same want .out
alone 0 "" eval mlp.bin "${TEST[@]}" -D batch=100 -q
expect 0 "" "$NETC" "$ROOT/samples/mnist/mlp.net" -o mlp.bin --target cpu -q --batch 100
alone 2 "$COMPILER" eval mlp.bin "${TEST[@]}"
holds "its code is for batch=128, batch=100, not for batch=104"
finish
