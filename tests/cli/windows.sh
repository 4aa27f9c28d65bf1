#!/bin/bash
# netc train --random-windows: windows of tokens that begin anywhere, drawn from the seed.
. "$(dirname "$0")/../lib.sh"
# 101 tokens, 0 to 100, so that a window's first token is where it begins; the log tells which windows a step has read.
cat >m.net <<'N'
use optim
dim batch = 4
model net(text: u8[batch, 6] in 0..101) {
    param w: f32 = 1
    first = cast(text[:, 0], f32)
    assert all(cast(text[:, 5], f32) == first + 5), "a window"
    return loss = mean(first) + 0 * w, low = min(first), high = max(first)
}
train net {
    minimize loss
    update sgd(lr = 0)
}
N
for i in $(seq 0 100); do printf "\\x$(printf %x "$i")"; done >t.u8
train() { expect 0 "" "$NETC" train m.net --data text=t.u8:raw --random-windows --device cpu --report-every 1 -q "$@"; }
# An epoch has as many windows as would follow each other: 20, of which 5 batches are made.
train --epochs 2 --log all.log
[ "$(grep -c '"step"' all.log)" = 10 ] && pass || fail "not 5 steps an epoch: $(tail -1 all.log)"
train --epochs 2 --log again.log
drawn() { sed 's/,"seconds".*//' "$1"; }
[ "$(drawn all.log)" = "$(drawn again.log)" ] && pass || fail "equal seeds draw differently"
train --epochs 2 --seed 1 --log other.log
[ "$(drawn all.log)" != "$(drawn other.log)" ] && pass || fail "another seed draws the same"
# Windows begin where the ones that follow each other never do, and the two epochs differ.
sed 's/.*"low":\([0-9]*\),"high":\([0-9]*\).*/\1 \2/' all.log | awk '{ for (i = 1; i <= 2; i++) { n += $i % 5 != 0; if ($i > 95) bad = 1 } } END { exit !(n > 8 && !bad) }' &&
    pass || fail "windows begin at $(drawn all.log)"
[ "$(drawn all.log | sed -n '1,5s/.*"loss"//p')" != "$(drawn all.log | sed -n '6,10s/.*"loss"//p')" ] && pass || fail "both epochs draw the same"
# Stopped within an epoch and resumed, training reads what it would have read.
train --steps 7 --save s.safetensors --log part.log
train --steps 10 --resume s.safetensors --log part.log
cmp -s <(drawn all.log) <(drawn part.log) && pass || fail "resumed: $(drawn part.log | tail -4), not $(drawn all.log | tail -4)"
# What is kept for evaluation is read once, window by window, and no window drawn reaches into it.
train --epochs 20 --split 0.5 -D batch=2 --log split.log
sed -n 's/.*"high":\([0-9]*\).*/\1/p' split.log | sort -n | tail -1 | grep -qx 43 && pass || fail "drawn up to $(sed -n 's/.*"high":\([0-9]*\).*/\1/p' split.log | sort -n | tail -1), not 43"
grep -q '"eval_loss":70.5,' split.log && pass || fail "evaluated on $(grep -m1 eval_ split.log)"
# Tokens of 16 bits fill an input of bytes, too, as without --random-windows; one that is no byte is told.
"$NETC" tokenize t.u8 --tokenizer bytes -o t.bin 2>/dev/null
expect 0 "" "$NETC" train m.net --data text=t.bin --random-windows --device cpu --report-every 1 -q --epochs 2 --log wide.log
[ "$(drawn all.log)" = "$(drawn wide.log)" ] && pass || fail "of 16 bits: $(drawn wide.log | tail -2), not $(drawn all.log | tail -2)"
sed 's/ in 0..101//' m.net >any.net
{ head -c 1224 t.bin; printf '\x2c\x01'; } >high.bin # the last of the 101 is 300
expect 1 "high.bin: token 100 is 300, which is not a u8; 16-bit tokens need an input of i32, u32 or i64" \
    "$NETC" train any.net --data text=high.bin --random-windows --device cpu -q --epochs 9
# What has no windows that could begin anywhere.
gzip -k t.u8
expect 1 "t.u8.gz: random windows are read from plain files" "$NETC" train m.net --data text=t.u8.gz:raw --random-windows
printf abc >short.txt
expect 1 "short.txt: random windows are read from plain files of tokens or text, each at least a window long" "$NETC" train m.net --data text=short.txt --random-windows
expect 1 "omit --no-shuffle" "$NETC" train m.net --data text=t.u8:raw --random-windows --no-shuffle
finish
