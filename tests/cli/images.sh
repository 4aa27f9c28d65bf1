#!/bin/bash
# Folders of images in training, evaluation and prediction: in memory and out of their files the same bits, by any
# number of threads, shuffled by seed and epoch, resumed, stopped; memory flat; what is damaged or differs is told.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
command -v python3 >/dev/null || { skip "no python3 to draw images"; finish; }
"$NETC" doctor | grep -q 'PNG images.*not there' && { skip "libspng is not there: folders of images are not tried"; finish; }
cat >draw.py <<'PY'
import os, random, struct, sys, zlib
def chunk(name, data): return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
def png(path, side, pixels):
    rows = b"".join(b"\0" + pixels[y * side * 3:(y + 1) * side * 3] for y in range(side))
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
r = random.Random(1)
for split, n in (("train", 70), ("test", 11)):
    for c, name in enumerate(["cat", "dog", "emu"]):
        os.makedirs(f"{split}/{name}", exist_ok=True)
        for i in range(n):
            base = [60 + 60 * c, 128, 200 - 60 * c]
            png(f"{split}/{name}/{i:03}.png", 8, bytes(base[k % 3] + r.randint(-50, 50) for k in range(192)))
os.makedirs("large/cat")
png("large/cat/1.png", 16, bytes([7]) * 768)
PY
python3 draw.py
cat >c.net <<'NET'
use nn
use optim
dim batch = 32
model c(image: u8[batch, 8, 8, 3], label: u8[batch] in 0..3) {
    x = flatten(cast(image, f32) / 255)
    logits = linear(relu(linear(x, 16) as fc1), 3) as fc2
    return loss = cross_entropy(logits, label), accuracy = accuracy(logits, label), logits
}
train c {
    minimize loss
    update adamw(lr = 0.003)
}
NET
T=("$NETC" train c.net --data label=train --device cpu)
E=(--eval-data image=test --eval-data label=test)
same() { cmp -s "$1" "$2" && pass || fail "$3: $1 and $2 differ"; }
expect 0 "eval_accuracy 1" "${T[@]}" --data image=train "${E[@]}" --epochs 4 --save m.safetensors -q
for threads in 1 3; do
    expect 0 "" env OMP_NUM_THREADS=$threads "${T[@]}" --data image=train:stream "${E[@]}" --epochs 4 --save s$threads.safetensors -q
    expect 0 "" env OMP_NUM_THREADS=$threads "${T[@]}" --data image=train "${E[@]}" --epochs 4 --save m$threads.safetensors -q
    same m$threads.safetensors s$threads.safetensors "out of files, by $threads threads"
done
expect 0 "" "${T[@]}" --data image=train:stream --epochs 4 --seed 1 --save o.safetensors -q
cmp -s m.safetensors o.safetensors && fail "another seed, the same order" || pass
# Resumed within an epoch, from a run that Ctrl-C ended.
"${T[@]}" --data image=train:stream --steps 200000 --save r.safetensors --report-every 5 >r.log 2>&1 &
pid=$!
wait_for $pid grep -q 'step ' r.log
kill -INT $pid; wait $pid; code=$?
[ $code -eq 130 ] && grep -q 'saved to r.safetensors' r.log && pass || fail "Ctrl-C: exit $code: $(tail -3 r.log)"
at=$(sed -n 's/^stopped after step \([0-9]*\) .*/\1/p; s/.*stopped after step \([0-9]*\) .*/\1/p' r.log | head -1)
expect 0 "" "${T[@]}" --data image=train:stream --steps $((at + 7)) --resume r.safetensors --save r.safetensors -q
expect 0 "" "${T[@]}" --data image=train --steps $((at + 7)) --save w.safetensors -q
same r.safetensors w.safetensors "resumed at $at"
# Evaluation and prediction take them, too; a folder without classes has no labels.
expect 0 "accuracy 1" "$NETC" eval c.net --data image=test:stream --data label=test --weights m.safetensors --device cpu
expect 0 "accuracy 1" "$NETC" eval c.net --data image=test:stream --data label=test:stream --weights m.safetensors --device cpu
for how in test test:stream; do
    expect 0 "33 examples" "$NETC" predict c.net --data image=$how --weights m.safetensors --device cpu -o logits=p.npy
    [ -e q.npy ] && same p.npy q.npy "predicted from files" || mv p.npy q.npy
done
expect 0 "11 examples" "$NETC" predict c.net --data image=test/cat --weights m.safetensors --device cpu -o logits=p.npy
expect 1 "test/cat has no labels" "$NETC" eval c.net --data image=test/cat --data label=test/cat --weights m.safetensors --device cpu
# Memory is that of a few batches, and stays so.
peak() { python3 - "$@" <<'PY'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
}
if nm "$NETC" 2>/dev/null | grep -q __asan_init; then
    skip "the address sanitizer keeps what is freed: memory is not looked at"
else
    two=$(peak "${T[@]}" --data image=train:stream --epochs 2) ten=$(peak "${T[@]}" --data image=train:stream --epochs 40)
    [ "$ten" -lt $((two + 4000)) ] && pass || fail "memory grows: $two kB after 2 epochs, $ten after 40"
fi

# What is wrong.
expect 1 "the classes differ: train has a folder 'dog', test/../large has none (3 classes and 1)" "${T[@]}" --data image=train --eval-data image=test/../large --eval-data label=test/../large --resize
expect 1 "1.png is 16 x 16 pixels, and 8 x 8 are expected" "$NETC" predict c.net --data image=large --device cpu -o logits=p.npy
expect 0 "1 example in" "$NETC" predict c.net --data image=large --resize --device cpu -o logits=p.npy
expect 1 "no PNG or JPEG" "$NETC" predict c.net --data image=cache --device cpu -o logits=p.npy
head -c 60 train/dog/003.png >cut && mv cut train/dog/003.png
echo none >train/emu/005.png
expect 1 "2 of 210 images cannot be read; the first: train/dog/003.png: a damaged PNG image" "${T[@]}" --data image=train --steps 2
holds "--skip-bad skips them"
expect 1 "1 of 210 images cannot be read; the first: train/emu/005.png is neither" "${T[@]}" --data image=train:stream --steps 2 # by their heads
for how in train train:stream; do
    expect 0 "note: 2 images of train are skipped; the first: train/dog/003.png" "${T[@]}" --data image=$how --epochs 1 --skip-bad --save b.safetensors
    [ -e b2.safetensors ] && same b.safetensors b2.safetensors "without the bad ones" || mv b.safetensors b2.safetensors
done
# Damaged since it was looked at: training ends with the step before, saved.
sed 's/, label: .*{/) {/; s/cross_entropy(logits, label), accuracy = accuracy(logits, label)/mean(square(logits))/' c.net >u.net
"$NETC" train u.net --data image=test:stream --device cpu --steps 2000000 --save g.safetensors --report-every 5 >g.log 2>&1 &
pid=$!
wait_for $pid grep -q 'step ' g.log
echo none >none; mv none test/emu/001.png # at once: it is never an empty one
wait $pid; code=$?
[ $code -eq 1 ] && grep -q 'test/emu/001.png is neither a PNG' g.log && [ -e g.safetensors ] && pass || fail "an image damaged meanwhile: exit $code: $(tail -3 g.log)"
finish
