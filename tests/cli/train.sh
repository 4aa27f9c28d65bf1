#!/bin/bash
# Training from the command line: learning, checkpoints, resuming, evaluation, logs, Ctrl-C.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache # its own: it is deleted below
device=${TRAIN_DEVICE:-cpu}
digits 4000
MLP=$ROOT/samples/mnist/mlp.net
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte")
TEST=(--data image="$D/t10k-images-idx3-ubyte" --data label="$D/t10k-labels-idx1-ubyte")
EVAL=(--eval-data image="$D/t10k-images-idx3-ubyte" --eval-data label="$D/t10k-labels-idx1-ubyte")
value() { sed -n "s/.*\"$2\":\([-0-9.e+]*\).*/\1/p" "$1" | tail -1; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }' && pass || fail "$1 is less than $2"; }

expect 0 "steps" "$NETC" train "$MLP" "${DATA[@]}" "${EVAL[@]}" --device "$device" --epochs 3 --save m.safetensors --log m.jsonl
at_least "$(value m.jsonl eval_accuracy)" 0.9
grep -q '"step":93' m.jsonl && pass || fail "no line for the last step: $(tail -1 m.jsonl)"
expect 0 "accuracy" "$NETC" eval "$MLP" "${TEST[@]}" --device "$device" --weights m.safetensors --json
at_least "$(value "$W/.out" accuracy)" "$(awk -v a="$(value m.jsonl eval_accuracy)" 'BEGIN { print a - 1e-6 }')"

# The same run twice gives the same bits; so does one that was interrupted and resumed.
expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --device "$device" --steps 60 --save once.safetensors -q
expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --device "$device" --steps 60 --save twice.safetensors -q
cmp -s once.safetensors twice.safetensors && pass || fail "two equal runs differ"
"$NETC" train "$MLP" "${DATA[@]}" --device "$device" --steps 60 --save-every 7 --save part.safetensors --report-every 1 >part.log 2>&1 &
pid=$!
wait_for $pid test -e part.safetensors
kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null
rm -rf "$XDG_CACHE_HOME"
expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --device "$device" --steps 60 --resume part.safetensors --save part.safetensors -q
cmp -s once.safetensors part.safetensors && pass || fail "resuming after kill -9 differs from an uninterrupted run"

# Ctrl-C finishes the step, saves, says so.
"$NETC" train "$MLP" "${DATA[@]}" --device "$device" --epochs 100000 --save int.safetensors >int.log 2>&1 &
pid=$!
wait_for $pid grep -q 'step ' int.log
kill -INT $pid; wait $pid; code=$?
[ $code -eq 130 ] && pass || fail "Ctrl-C: exit $code, wanted 130: $(tail -3 int.log)"
grep -q 'saved to int.safetensors' int.log && [ -e int.safetensors ] && pass || fail "Ctrl-C did not save: $(tail -3 int.log)"

# --split, --watch, --eval-every, settings, a model.bin in place of the model
expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --device "$device" --split 0.75 --steps 20 --eval-every 10 --watch fc1.weight --log s.jsonl -q
[ "$(grep -c eval_loss s.jsonl)" = 2 ] && pass || fail "two evaluations wanted: $(cat s.jsonl)"
grep -q 'fc1.weight.std' s.jsonl && pass || fail "no watched statistics"
expect 0 "" "$NETC" "$MLP" -o m.bin --target "${device%%:*}" -q
expect 0 "" "$NETC" train m.bin "${DATA[@]}" --device "$device" --steps 60 --save bin.safetensors -q
# On a GPU the caches were deleted since: other matmul algorithms may have been measured as fastest.
[ "$device" != cpu ] || cmp -s once.safetensors bin.safetensors && pass || fail "model.bin trains differently from its source"

# Parameters in f16 beside others in f32: squares of their gradients, which leave the range of f16, are in f32.
cat >mixed.net <<'N'
use nn
use optim
dim batch = 64
model mixed(image: u8[batch, 28, 28], label: u8[batch] in 0..10) {
    param first: f16[784, 16] = uniform(-0.05, 0.05)
    h = relu(matmul(cast(flatten(image), f16) / 255, first))
    return loss = cross_entropy(linear(h, 10) as head, label)
}
train mixed {
    minimize loss
    clip clip_global_norm(1.0)
    update adam(lr = 2e-3)
}
N
expect 0 "" "$NETC" train mixed.net "${DATA[@]}" --device "$device" --log mixed.jsonl -q
at_least 1.5 "$(value mixed.jsonl loss)"
finish
