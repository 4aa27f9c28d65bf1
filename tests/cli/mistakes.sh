#!/bin/bash
# What newcomers get wrong: one message for one mistake, which says what is wrong, of what, and what to do.
. "$(dirname "$0")/../lib.sh"
# wrong TEXT command...: it exits with 1, and its only error holds TEXT.
wrong() {
    expect 1 "$1" "${@:2}"
    local n; n=$(grep -c 'error: ' "$W/.out")
    [ "$n" = 1 ] && pass || fail "$n errors, wanted 1: ${*:2} : $(head -8 "$W/.out")"
}
cat >m.net <<'N'
use nn
use optim
const hidden = 5
dim batch = 4
setting rate = 0.1
model net(image: f32[batch, 3], label: f32[batch, 1]) {
    h = relu(linear(image, hidden) as low)
    y = linear(h, hidden // hidden) as top
    return loss = mean(square(y - label)), y
}
train net {
    minimize loss
    update sgd(lr = rate)
}
N
printf 'model make() { return x = zeros([8, 3]), y = zeros([8, 1]), flat = zeros([24]), wide = zeros([8, 4]), whole = zeros([8, 3], i32) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x.npy -o y=y.npy -o flat=flat.npy -o wide=wide.npy -o whole=whole.npy --device cpu
DATA=(--data image=x.npy --data label=y.npy --device cpu)

# definitions: said of the line that defines
wrong "m.net:3:1: error: a size must be an integer, and 'hidden' is the number 12.5" "$NETC" m.net -D hidden=12.5
holds "by -D hidden=12.5"
holds "m.net:7:14: note: used here"
wrong "a size must be positive, and 'hidden' is the integer -3" "$NETC" m.net -D hidden=-3
wrong "m.net:4:1: error: a dimension must be a positive integer, and 'batch' is the number 2.5" "$NETC" m.net -D batch=2.5
wrong "a setting must be a number, and 'rate' is true" "$NETC" m.net -D rate=true
wrong "unknown name 'tanh_'" "$NETC" <(printf 'use nn\nconst act = "relu"\nmodel m(x: f32[2]) { return if act == "relu" then relu(x) else x }') -D act=tanh_
holds "a string needs quotes, protected from the shell by others: -D 'act=\"tanh_\"'"
wrong "-D hidden= has no value: write -D hidden=VALUE" "$NETC" m.net -D hidden=

# what another language writes so
meant() { # TEXT NOTE
    printf 'model m(x: f32[3]) {\n    y = %s\n    return x\n}\n' "$1" >text.net
    wrong "unexpected" "$NETC" text.net
    holds "note: $2"
}
meant 'zeros((3, 4))' 'a list, a shape too, is written in square brackets: [3, 4]'
meant 'lambda a: a' 'a function has a name: fn f(x)'
meant 'f"h.{x}"' 'strings are concatenated with +: "h." + str(i)'
for op in + '*' / % '**' '<' == and as reuse; do
    meant "x
        $op 2" "to continue the line before, end it with '$op', or use brackets"
done
wrong "this value is not used; give it a name with = or, to continue the line before, end that line with '-'" "$NETC" \
    <(printf 'model m(x: f32[3]) {\n    y = x\n        - 1\n    return y\n}')
expect 1 "unexpected end of the line, expected '{'" "$NETC" \
    <(printf 'model m(x: f32[3]) {\n    loop i in 0..3\n        carry x {\n        x = x + 1\n    }\n    return x\n}')
holds "note: 'carry', 'over' and 'while' stand in the line of 'loop'"
wrong "unexpected 'carry'" "$NETC" <(printf 'model m(x: f32[3]) {\n    loop i in 0..3 while i < 2 carry x { x = x + 1 }\n    return x\n}')
holds "note: the order is 'loop i in 0..n carry x over y = ys while x > 1'"
for word in for loop; do
    wrong "known at compile time, found a tensor i32[]" "$NETC" <(printf 'model m(n: i32[]) {\n    x = 1.0\n    %s i in 0..n%s { x = x * 2 }\n    return x\n}' $word "$([ $word = for ] || echo ' carry x')")
    holds "note: a number of iterations that is data ends a loop early: 'loop i in 0..100 carry x while i < n'"
done
wrong "eigh takes symmetric matrices, found [2, 4]" "$NETC" <(printf 'use linalg\nmodel m(x: f32[2, 4]) { return y = eigh(x) }')
wrong "unexpected ','" "$NETC" <(printf 'model m(x: f32[3]) { return max(x, , 1) }')
! grep -q 'square brackets' "$W/.out" && pass || fail "a note about lists where an argument is missing"

# data: the input and the file
for file in wide flat whole; do wrong "input 'image': $file.npy holds " "$NETC" train m.net --data image=$file.npy --data label=y.npy --device cpu; done
holds "the model expects f32[*, 3]"
wrong "cannot open m: No such file or directory; did you mean m.net?" "$NETC" run m
wrong "input 'label': cannot open none.npy" "$NETC" train m.net --data image=x.npy --data label=none.npy --device cpu
wrong "input 'image' of 'net' is f32[8, 3], and wide.npy holds f32[8, 4]" "$NETC" run m.net --input image=wide.npy -o y=out.npy --device cpu
wrong "input 'image' of 'net' is f32[8, 3], and whole.npy holds i32[8, 3]" "$NETC" run m.net --input image=whole.npy -o y=out.npy --device cpu
wrong "'train' needs data for inputs 'image', 'label'; give --data image=FILE --data label=FILE" "$NETC" train m.net --device cpu
wrong "'eval' needs data for input 'label'; give --eval-data label=FILE" "$NETC" train m.net "${DATA[@]}" --eval-data image=x.npy

# the command line
wrong "the verb comes first: netc train" "$NETC" m.net train "${DATA[@]}"
wrong "the verb comes first: netc train" "$NETC" --device cpu train m.net
expect 0 "usage: netc train" "$NETC" help train
wrong "unknown option --lr; the learning rate is in the model" "$NETC" train m.net "${DATA[@]}" --lr 0.1
wrong "-D batch=N" "$NETC" train m.net "${DATA[@]}" --batch-size 4
wrong "unknown option --data; 'netc compile --help' lists them" "$NETC" m.net --data image=x.npy
wrong "unknown option --device; nothing is run here; --target cpu or cuda says what for" "$NETC" inspect m.net --device cpu
wrong "unknown option --cpu; write --target cpu" "$NETC" report m.net --cpu -o report.html
wrong "unknown option --cpu; write --device cpu" "$NETC" train m.net --cpu
wrong "unknown option --target; --device cpu or cuda says where it runs" "$NETC" profile m.net --target cpu
wrong "unknown option --input; --data NAME=FILE gives the examples" "$NETC" predict m.net --input x=x.npy
wrong "unknown option --data; --input NAME=FILE gives the whole input" "$NETC" run m.net --data x=x.npy
wrong "unknown option --seconds; write --budget SECONDS" "$NETC" tune m.net --seconds 3
wrong "did you mean --epochs?" "$NETC" train m.net --epohcs 3
wrong "give --epochs or --steps, not both" "$NETC" train m.net "${DATA[@]}" --epochs 1 --steps 3
wrong "give one model, not also 'x.npy'" "$NETC" train m.net x.npy

wrong "unknown architecture 'sm_90ab'" "$NETC" m.net -o m.bin --arch sm_90ab

# what is written is what the name says
wrong "a compiled model is written as .bin" "$NETC" m.net -o m.onnx
wrong "tensors are written as .safetensors" "$NETC" init m.net -o m.bin
wrong "a checkpoint is written as .safetensors" "$NETC" train m.net "${DATA[@]}" --save m.pt
wrong "the name of a file is empty" "$NETC" train m.net "${DATA[@]}" --save "" # an unset variable
grep -q "epoch" "$W/.out" && fail "trained first" || pass
wrong "the name of a file is empty" "$NETC" train m.net "${DATA[@]}" --log ""
wrong "the name of a file is empty" "$NETC" show ""
wrong "an output is written as .npy, .npz, .csv or .tsv" "$NETC" run m.net --input image=x.npy -o y=y.png --device cpu
for file in m.onnx m.bin m.pt y.png out.npy; do [ -e $file ] && fail "$file was written" || pass; done

# text of other editors
printf '\xff\xfem\0o\0' >utf16.net
wrong "it is UTF-16: save it as UTF-8" "$NETC" utf16.net
sed 's/use nn/use “nn”/' m.net >quotes.net
wrong "quotes.net:1:5: error: strings stand in plain quotes" "$NETC" quotes.net
sed '1s/$/ "unclosed/' m.net >unclosed.net
wrong "has no closing" "$NETC" unclosed.net
sed 's/lr = rate/lr = "0.1"/' m.net >string.net
wrong "expected a tensor, found the string" "$NETC" string.net
sed 's/$/\r/; s/    /\t/; 1s/^/\xef\xbb\xbf/' m.net >windows.net
expect 0 "compiles" "$NETC" windows.net

# what other languages write: the note says how it is written here
meant() { # TEXT NOTE
    printf '%b' "$1" >meant.net
    wrong "" "$NETC" meant.net
    holds "$2"
}
meant 'model m(x: f32(4, 3)) { return x }\n' "a shape is written in square brackets: f32[4, 3]"
meant 'model m(x: f32[4]) {\n    param w = f32[4]\n    return x * w\n}\n' "the type comes before the value: w: f32[3] = 0"
meant 'model m(x: f32[2]) {\n    max = max(x)\n    return y = max(x) - max\n}\n' "'max' names a value here, which hides the function; give it another name"
meant 'model m(x: f32[2, 3]) { return y = x.T }\n' "note: write 'transpose(x)'"
meant 'model m(x: f32[2, 3]) { return y = x.view([6]) }\n' "note: write 'reshape(x, shape)'"
meant 'model m(x: f32[2]) { return x + tensor([1., 2.]) }\n' "a number needs digits after its point: 1.0"
meant 'fn own(x, y) { return x * y } grad(dy) { return dy * y, none }\nmodel m(x: f32[3], y: f32[1, 3]) { return own(x, y) }\n' "meant.net:2:43: note: in 'own', called from here"
meant 'model m(x: f32[2]) { return sum(x) }\ntrain m {\n    minimize sum\n    clip 1.0\n    update f\n}\n' "clip takes a function of the gradients: clip_global_norm(1.0)"

# a place that is not there, computed at run time
cat >place.net <<'N'
model place() {
    state at: i32 = 2
    state held: f32[2, 4] = 0
    held[:, at] <- [5, 6]
    held[1, at] <- 7
    at <- at + 1
    return held
}
N
expect 0 "held f32[2, 4] 0 0 5 5 0 0 7 7" "$NETC" run place.net --times 2 --device cpu
expect 1 "place.net:4: assertion failed: the index of <- is outside 0..4" "$NETC" run place.net --times 3 --device cpu

# what a function with its own gradient asserts, also within another one and in a loop
cat >own.net <<'N'
const low = -100
fn inner(x) { assert all(x > low), "too low"
    return x * 2 } grad(dy) { return 3 * dy }
fn outer(x) { return inner(x), x > 0 } grad(dy, db) { return grad(sum(inner(x) * dy), x) }
model once() { return y = inner(tensor([1.0, -1.0])), d = grad(sum(inner(tensor([2.0]))), tensor([2.0])) }
model often() {
    y = tensor([1.0, -1.0])
    begin = y
    loop i in 0..3 carry y { y = outer(y)[0] }
    return y, d = grad(sum(y), begin)
}
N
expect 0 "y f32[2] 2 -2" "$NETC" run own.net --entry once --device cpu
expect 1 "own.net:5: assertion failed: too low" "$NETC" run own.net --entry once -D low=-1 --device cpu
expect 0 "d f32[2] 27 27" "$NETC" run own.net --entry often --device cpu
expect 1 "own.net:9: assertion failed: too low" "$NETC" run own.net --entry often -D low=-4 --device cpu

# what a condition of a loop asserts, also in the iteration that ends the loop; an index of an iteration whose selections
# change nothing
cat >ends.net <<'N'
fn positive(x) {
    assert x >= 0, "negative"
    return x
}
model fine() {
    h = 3.0
    loop i in 0..6 carry h while positive(h) > 0.5 { h = h - 1.5 }
    return h
}
model below() {
    h = 3.0
    loop i in 0..6 carry h while positive(h) > 0.5 { h = h - 2 }
    return h
}
model outside() {
    h = ones([5])
    far = argmax(h) + 100
    going = true
    loop i in 0..10 carry h, going {
        going = going and sum(h) < 3
        h = where(going, h * max(h) + h[where(i > 5, far, 0)], h)
    }
    return h
}
N
expect 0 "h f32[] 0" "$NETC" run ends.net --entry fine --device cpu
expect 1 "ends.net:12: assertion failed: negative" "$NETC" run ends.net --entry below --device cpu
expect 1 "ends.net:21: index of gather: 100 at element 0 is outside 0..5" "$NETC" run ends.net --entry outside --device cpu

# a label that is no class, where no range is stated; where one is, nothing is checked
cat >labels.net <<'N'
use nn
model free(x: f32[4, 3]) { return loss = cross_entropy(x, iota(4) + cast(0 * x[:, 0], i32)) }
model stated(x: f32[4, 5, 3], text: u8[4, 6] in 0..3) { return loss = cross_entropy(x, cast(text, i32)[:, 1:]) }
model made() { return x = ones([4, 3]) }
N
expect 0 "" "$NETC" run labels.net --entry made -o x=ones.npy --device cpu
expect 1 "labels.net:2: index of gather: 3 at element 3 is outside 0..3" "$NETC" run labels.net --entry free --input x=ones.npy --device cpu
"$NETC" --emit fused labels.net | sed -n '/^entry stated/,/^}/p' | grep -c gather >gathers
[ "$(cat gathers)" = 0 ] && pass || fail "labels in a stated range are checked"

# a model that halves its batch, and a last batch that is odd
printf 'use nn\nuse optim\ndim batch = 8\nmodel pairs(x: f32[batch, 3]) {\n    a, b = split(linear(x, 4) as fc, 2, axis = 0)\n    return loss = mse(a, b)\n}\ntrain pairs {\n    minimize loss\n    update sgd(lr = 0.1)\n}\n' >pairs.net
printf 'model make() { return x = zeros([13, 3]) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x13.npy --device cpu
for how in eval "train --keep-last"; do
    wrong "of the last, smaller batch (batch=5); choose another size with -D batch=N" "$NETC" $how pairs.net --data x=x13.npy --device cpu
done

# two inputs of one size
printf 'dim batch = 2\ndim T\nmodel m(x: f32[batch, T], y: f32[batch, T]) { return z = x + y }\n' >same.net
printf 'model make() { return x = zeros([2, 5]), y = zeros([2, 6]) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x5.npy -o y=y6.npy --device cpu
wrong "the data disagree: T is 5 in 'x' and 6 in 'y'" "$NETC" run same.net -i x=x5.npy -i y=y6.npy --device cpu
expect 1 "unknown name 'a'" "$NETC" <(printf 'model m(x: f32[4]) { return a, b = split(x, 2) }')
holds "note: a name in a return stands for one value; to return those of one call, name them on a line before"
expect 0 "usage: tests/run.sh BUILD_DIR [WORD...]" bash "$ROOT/tests/run.sh" --help
finish
