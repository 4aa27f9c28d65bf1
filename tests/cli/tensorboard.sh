#!/bin/bash
# --tensorboard: an event file that a reader of our own, and TensorBoard's where it is installed, holds to the log;
# a resumed training goes on in the same folder; folders that cannot be written, and disks that become full.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
PYTHON=${TENSORBOARD_PYTHON:-python3}
cat >c.net <<'NET'
use nn
use optim
dim batch = 16
model c(x: u8[batch, 8, 8, 3], label: u8[batch] in 0..3) {
    scaled = cast(x, f32) / 255
    tap scaled as seen
    logits = linear(relu(linear(flatten(scaled), 16) as fc1), 3) as fc2
    return loss = cross_entropy(logits, label), accuracy = accuracy(logits, label), logits
}
train c {
    minimize loss
    update adamw(lr = 0.003)
}
NET
cat >data.net <<'NET'
model data() {
    label = iota([96]) % 3
    return x = cast(uniform([96, 8, 8, 3], 0, 80) + reshape(cast(label * 60, f32), [96, 1, 1, 1]), u8), label = cast(label, u8)
}
NET
expect 0 "" "$NETC" run data.net -o x=x.npy -o label=label.npy --device cpu
T=("$NETC" train c.net --data x=x.npy --data label=label.npy --split 0.8 --device cpu -q)
expect 0 "" "${T[@]}" --epochs 3 --save whole.safetensors
expect 0 "" "${T[@]}" --epochs 2 --tensorboard tb --watch fc1.weight --log t.log --save m.safetensors
expect 0 "" "${T[@]}" --epochs 3 --tensorboard tb --watch fc1.weight --log t.log --resume m.safetensors --save m.safetensors
cmp -s whole.safetensors m.safetensors && pass || fail "being watched changes training"
[ "$(ls tb | grep -c events)" = 2 ] && pass || fail "two event files wanted: $(ls tb)"
if command -v "$PYTHON" >/dev/null; then
    expect 0 "" "$PYTHON" "$ROOT/tests/cli/events.py" tb t.log fc1.weight 3072
    grep -q 'no tensorboard' "$W/.out" && skip "tensorboard is not installed: only our own reader was asked"
else
    skip "no python3: event files are not read"
fi
# A model.bin has no text of its graph to show, or shows it; the rest is there all the same.
expect 0 "" "$NETC" c.net -o c.bin --target cpu -q
expect 0 "" "$NETC" train c.bin --data x=x.npy --data label=label.npy --device cpu -q --tensorboard tb2
[ "$(wc -l <tb2/scalars.csv)" -gt 10 ] && pass || fail "no table: $(ls -l tb2)"

# Said before the work.
echo >file
expect 1 "cannot write file/tb: Not a directory" "${T[@]}" --tensorboard file/tb
expect 1 "cannot write no/tb: No such file" "${T[@]}" --tensorboard no/tb
# No room: said once, training goes on to its checkpoint, and what is in the file is whole records.
expect 0 "" "${T[@]}" --epochs 60 --save long.safetensors
(
    ulimit -f 256
    expect 2 "note: TensorBoard's files in full cannot be written: File too large; training goes on without them" "${T[@]}" --epochs 60 --tensorboard full --watch fc1.weight --save f.safetensors
    [ $failed = 0 ] || echo "$passed" >bad
)
[ -e bad ] && fail "full: see above" || pass
cmp -s long.safetensors f.safetensors && pass || fail "a full disk changed training: $(ls -l)"
[ "$(wc -c <full/events*)" -le 262144 ] && pass || fail "$(ls -l full)"
sed '/^lines, n/,$d' "$ROOT/tests/cli/events.py" >whole.py
if command -v "$PYTHON" >/dev/null; then expect 0 "" "$PYTHON" whole.py full - - -; fi
finish
