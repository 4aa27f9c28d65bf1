#!/bin/bash
# Loss scaling from the command line: what is shown and logged, checkpoints, resuming.
. "$(dirname "$0")/../lib.sh"
digits 2000
python() { # WHAT FILE...: the script on standard input, which reads them, must not fail
    command -v python3 >/dev/null || { skip "no python3: $1 is not read"; cat >/dev/null; return; }
    python3 - && pass || fail "$1: $(cat "${@:2}")"
}
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte" --device cpu)
# Gradients a thousand times as large: the first scales are too large for f16.
sed 's/cross_entropy(logits, label)/1000 * cross_entropy(logits, label)/' "$ROOT/samples/mnist/mlp.net" >loud.net
T=("$NETC" train loud.net "${DATA[@]}" --precision f16)
expect 0 "losses times 65536" "${T[@]}" --steps 30 --report-every 10 --log l.jsonl --save once.safetensors
holds ", skipped "
holds "30 steps in"
python "the log" l.jsonl <<'PY'
import json
lines = [json.loads(l) for l in open("l.jsonl")]
last = lines[-1]
assert [l["step"] for l in lines] == [10, 20, 30]
assert 0 < last["skipped"] < 17 and last["loss_scale"] == 65536 / 2 ** last["skipped"], last
assert last["loss"] < lines[0]["loss"] * 0.9, lines
PY
# Stopped while it still skips, and gone on: the same bits, scale and counters included.
expect 0 "skipped 2" "${T[@]}" --steps 2 --save part.safetensors
expect 0 "losses times 16384" "${T[@]}" --steps 30 --resume part.safetensors --save part.safetensors
cmp -s once.safetensors part.safetensors && pass || fail "resuming among skipped steps differs from an uninterrupted run"
# Every step of an interval skipped: its loss is no number.
expect 0 '"loss":null' "${T[@]}" --steps 2 --report-every 2 --json

# Between precisions: a checkpoint without a scale begins with the first one, f32 passes over it.
expect 0 "" "$NETC" train loud.net "${DATA[@]}" --steps 5 --save wide.safetensors -q
expect 0 "note: wide.safetensors holds no loss scale; it starts at 65536" "${T[@]}" --steps 7 --resume wide.safetensors
expect 0 "steps in" "$NETC" train loud.net "${DATA[@]}" --steps 32 --resume once.safetensors
grep -q loss_scale "$W/.out" && fail "f32 shows a loss scale" || pass

# What a smaller scale does not help against is reported as in f32, with its line, once the scale is 1.
sed 's/cross_entropy(logits, label)/mean(log(abs(logits) * 0))/' loud.net >log.net
expect 1 "not finite at step 16; the first value that is not is the result of 'log'" "$NETC" train log.net "${DATA[@]}" --precision f16 --steps 40
holds "log.net:18"
sed 's/cross_entropy(logits, label)/mean(sqrt(abs(logits) * 0))/' loud.net >root.net
expect 1 "not finite at step 16; the first value that is not is the result of 'div'" "$NETC" train root.net "${DATA[@]}" --precision f16 --steps 40
holds "root.net:18"

# A watched gradient has no scale in it.
sed 's/    minimize loss/&\n    tap grad(loss, fc2.weight) as slope/' "$ROOT/samples/mnist/mlp.net" >tap.net
for p in f32 f16; do expect 0 "" "$NETC" train tap.net "${DATA[@]}" --precision $p --steps 1 --watch slope --log $p.jsonl -q; done
python "the watched gradients" f32.jsonl f16.jsonl <<'PY'
import json
a, b = (json.loads(open(p + ".jsonl").read())["slope.std"] for p in ("f32", "f16"))
assert 0 < a and abs(a - b) < 0.01 * a
PY

# Differences are taken of the loss itself: steps made for one 65536 times as large see its bends as kinks
printf 'use nn\nuse optim\nmodel m() {\n    param w: f32[4, 8] = normal(0.02)\n    return loss = mean(exp(layer_norm(w, affine = false)))\n}\ntrain m {\n    minimize loss\n    update sgd(lr = 0.1)\n}\n' > curved.net
expect 0 "40 of  40 probes" "$NETC" check curved.net --precision f16 --device cpu

# A model.bin trains like its source.
expect 0 "" "$NETC" loud.net --precision f16 -o m.bin --target cpu -q
expect 0 "" "$NETC" train m.bin "${DATA[@]}" --steps 30 --save bin.safetensors -q
cmp -s once.safetensors bin.safetensors && pass || fail "model.bin trains differently from its source"
finish
