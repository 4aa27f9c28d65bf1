#!/bin/bash
# netc generate: a model that remembers in states writes what the same model over whole windows does, on every device
# there is; seeds, several texts, stops; what cannot be.
. "$(dirname "$0")/../lib.sh"
SHAPE=(-D layers=2 -D width=32 -D heads=2 -D T=24 -D piece=8)
{ cat "$ROOT/samples/shakespeare/gpt.net"; cat <<'N'
model whole(text: u8[count, T] in 0..128) { return logits = network(text, 0, attention(causal = true)) as "" }
model last(text: u8[count, T] in 0..128) {
    scratch state seen: i32[] = 0
    seen <- seen + 1
    return logits = (network(text, 0, attention(causal = true)) as "")
}
model narrow(text: u8[1, 1] in 0..128) { return logits = zeros([1, 300]) + cast(sum(cast(text, i32)), f32) * 0 + cast(iota([1, 300], 1), f32) }
model odd(text: u8[1, 1] in 0..128) { return logits = 0 / (cast(text, f32) - 65) }
model narrower(text: u8[2, 4] in 0..128) { return y = sum(cast(text, f32)) }
# Whatever it reads, it writes thumbs and accents, byte by byte.
model thumbs(text: u8[1, 1]) {
    scratch state n: i32[] = 0
    n <- n + where(sum(cast(text, i32)) >= 0, 1, 2)
    bytes = tensor([240, 159, 145, 141, 195, 169, 46, 233, 145])
    return logits = cast(expand(bytes[(n - 1) % 9] == iota(256), 0), f32)
}
model both(text: u8[1, 1], other: u8[1, 1]) { return logits = cast(text + other, f32) }
N
} >gpt.net
expect 0 "" "$NETC" init gpt.net "${SHAPE[@]}" -o w.safetensors --seed 5
devices=cpu
[ -n "${REQUIRE_GPU:-}" ] && devices='cpu cuda:0'
for device in $devices; do
    G=("$NETC" generate gpt.net "${SHAPE[@]}" --weights w.safetensors --device "$device")
    # As long as nothing has left the window: prompts of 1, some and all but one of its bytes.
    for prompt in A 'To be, or' 'The quality of mercy is'; do
        length=$((24 - ${#prompt} + 1))
        expect 0 "$prompt" "${G[@]}" --temperature 0 --prompt "$prompt" --length $length
        cp .out next
        expect 0 "" "${G[@]}" --temperature 0 --prompt "$prompt" --length $length --entry whole
        cmp -s next .out && pass || fail "next and whole differ after '$prompt' on $device: $(od -c next | head -3) $(od -c .out | head -3)"
    done
    # A prompt in pieces of 8, in the window and beyond it, is the prompt byte by byte.
    for prompt in 'Of eight' 'Of nine..' 'To be, or not to be: that' 'The quality of mercy is not strained; it droppeth as the gentle rain from heaven'; do
        expect 0 "$prompt" "${G[@]}" --temperature 0 --prompt "$prompt" --length 30
        cp .out pieces
        expect 0 "" "${G[@]}" --temperature 0 --prompt "$prompt" --length 30 --prefill ''
        cmp -s pieces .out && pass || fail "in pieces '$prompt' goes on otherwise on $device: $(od -c pieces | tail -3) $(od -c .out | tail -3)"
    done
    expect 0 "" "${G[@]}" --length 60 --entry whole # the window moves
    expect 0 "" "${G[@]}" --length 60 --seed 1
    cp .out first
    [ "$(wc -c <first)" = 62 ] && pass || fail "60 bytes after a new line, and one more: $(wc -c <first)"
    expect 0 "" "${G[@]}" --length 60 --seed 1
    cmp -s first .out && pass || fail "the same seed writes another text"
    expect 0 "" "${G[@]}" --length 60 --seed 2
    cmp -s first .out && fail "two seeds write the same text" || pass
    # The first of several texts is the one that is written alone.
    expect 0 "--- 3 of 3 ---" "${G[@]}" --length 60 --seed 1 -D count=3
    head -c $((62 + 15)) .out | tail -c +16 | head -c 61 | cmp -s - <(head -c 61 first) && pass || fail "the first of three texts: $(od -c .out | head)"
    # Prompts of different lengths: each text is what it is alone, side by side, in turns, with rows to spare, and whether
    # the beginning goes in pieces; of equal prompts the second is the second of two texts.
    prompts=('To be, or' A 'The quality of mercy is not strained' 'Of nine..' A)
    P=("${G[@]}" --length 30 --seed 3)
    for i in 0 1 2 3; do expect 0 "" "${P[@]}" --prompt "${prompts[i]}" && { echo "--- $((i + 1)) of 5 ---"; cat .out; } >>alone; done
    expect 0 "" "${P[@]}" --prompt A -D count=2 && { echo "--- 5 of 5 ---"; sed '0,/--- 2 of 2 ---/d' .out; } >>alone
    printf '%s\n' "${prompts[@]}" '' >lines
    for count in 1 2 7; do
        expect 0 "" "${P[@]}" --prompts lines -D count=$count
        cmp -s alone .out && pass || fail "texts of five prompts, $count side by side, are not those written alone on $device: $(diff alone .out | head -8)"
    done
    sed -i 's/$/\r/' lines # Windows' ends of lines
    expect 0 "" "${P[@]}" --prompts lines -D count=2
    cmp -s alone .out && pass || fail "prompts with Windows' ends of lines on $device: $(diff alone .out | head -8)"
    expect 0 "" "${P[@]}" "${prompts[@]/#/--prompt=}" -D count=2 --prefill ''
    cmp -s alone .out && pass || fail "texts of five prompts without pieces are not those written alone on $device: $(diff alone .out | head -8)"
    rm alone
    # A window of the last 24 moves by each text's own length.
    expect 0 "" "${P[@]}" --entry whole --prompt A && { echo "--- 1 of 2 ---"; cat .out; } >>alone
    expect 0 "" "${P[@]}" --entry whole --prompt 'The quality of mercy is not strained' && { echo "--- 2 of 2 ---"; cat .out; } >>alone
    expect 0 "" "${P[@]}" --entry whole --prompt A --prompt 'The quality of mercy is not strained' -D count=2
    cmp -s alone .out && pass || fail "two windows are not those alone on $device: $(diff alone .out | head -8)"
    rm alone
    expect 0 "" "${G[@]}" --length 60 --seed 1 --top-k 1
    cp .out greedy
    expect 0 "" "${G[@]}" --length 60 --temperature 0
    cmp -s greedy .out && pass || fail "top-k 1 is not the most likely byte"
    expect 0 "" "${G[@]}" --length 60 --top-p 1e-9
    cmp -s greedy .out && pass || fail "top-p of next to nothing is not the most likely byte"
done
# A stop is not written, nor what follows it.
stop=$(head -c 20 first | tail -c 3)
expect 0 "" "${G[@]}" --length 60 --seed 1 --stop "$stop"
at=$(grep -abo -m1 -F -- "$stop" first | head -1 | cut -d: -f1)
{ head -c "$at" first; echo; } | cmp -s - .out && pass || fail "stop '$stop': $(od -c .out)"
expect 1 "does not take: 0 to 127" "${G[@]}" --prompt é
expect 1 "the prompt is empty" "${G[@]}" --prompt ''
expect 1 "prompt 2 is empty" "${G[@]}" --prompt A --prompt ''
expect 1 "token 2 of prompt 2 is 195, which the input" "${G[@]}" --prompt A --prompts lines --prompt xé
expect 1 "cannot read none.txt" "${G[@]}" --prompts none.txt
printf 'A\0B\n' >zero.txt
expect 1 "zero.txt is not text: a file of prompts has one per line" "${G[@]}" --prompts zero.txt
echo >empty.txt
expect 1 "empty.txt holds no prompts; it must have one per line" "${G[@]}" --prompts empty.txt
expect 1 "has no output 'logits'" "${G[@]}" --entry gpt
expect 1 "did you mean 'next'" "${G[@]}" --entry nxt
expect 1 "with states it must take one" "${G[@]}" --entry last
expect 1 "one input, of tokens" "${G[@]}" --entry both
# The first stop that comes ends it, whole characters are written as they come, broken ones at the end.
expect 0 "" "${G[@]}" --length 60 --seed 1 --stop "none of it" --stop "$stop"
{ head -c "$at" first; echo; } | cmp -s - .out && pass || fail "two stops: $(od -c .out)"
T=("$NETC" generate gpt.net "${SHAPE[@]}" --allow-missing --weights w.safetensors --device cpu --entry thumbs --temperature 0 --prompt x -q)
expect 0 'x👍é.' "${T[@]}" --length 7
expect 0 'x👍' "${T[@]}" --length 40 --stop é
[ "$(cat .out)" = 'x👍' ] && pass || fail "a stop of two bytes: $(cat .out)"
"${T[@]}" --length 5 | cmp -s - <(printf 'x👍\303\n') && pass || fail "half a character at the end"
if command -v python3 >/dev/null; then
    "${T[@]}" --length 25 | python3 -c '
import os
while part := os.read(0, 100): print(part.decode("utf-8", "backslashreplace"))' >parts
    grep -q '\\xf0\|\\x9f\|\\xc3\|\\xa9' parts && fail "a character was written by halves: $(cat parts)" || pass
else
    skip "no python3: what a terminal sees"
fi
# Tokens of a tokenizer: its texts are written, and the prompt is its tokens.
V=$ROOT/tests/golden/tokens/vocab.json
cat >words.net <<'N'
model next(token: i32[1, 1] in 0..702) {   # goes on by one
    return logits = cast((token + 1) % 702 == expand(iota(702), 0), f32)
}
N
X=("$NETC" generate words.net --device cpu --temperature 0 -q)
want=$(echo " the" | tr -d '\n' | "$NETC" tokenize --tokenizer "$V")
last=${want##* }
expect 0 "" "${X[@]}" --tokenizer "$V" --prompt " the" --length 20
seq $((last + 1)) $((last + 20)) | "$NETC" tokenize --decode --tokenizer "$V" | { printf ' the'; cat; echo; } | cmp -s - .out && pass || fail "the texts of tokens $last on: $(cat .out)"
expect 1 "drew the token 700, which $V does not have" "${X[@]}" --tokenizer "$V" --prompt " the" --length 700
expect 1 "drew the token 256, which bytes does not have; name the model's tokenizer" "${X[@]}" --length 700
expect 1 "drew the token 299, which bytes does not have" "${G[@]}" --entry narrow
expect 1 "cannot take the prompt of 'next'" "${G[@]}" --prefill narrower
cat >window.net <<'N'
model next(text: u8[1, 4]) { return logits = cast(expand(iota(256), 0) == 66, f32) + cast(expand(cast(text, i32), 2), f32) * 0 }
model prefill(text: u8[1, 4]) { return y = sum(cast(text, f32)) }
N
expect 0 "xBBB" "$NETC" generate window.net --device cpu --temperature 0 -q --prompt x --length 3
expect 1 "cannot take the prompt of 'next'" "$NETC" generate window.net --device cpu --prompt x --prefill prefill
# One that keeps nothing of the prompt, though its input would do: h counts tokens.
cat >counts.net <<'N'
model next(text: u8[1, 1]) {
    scratch state h: i32[] = 0
    h <- h + 1
    return logits = cast(expand(iota(256), 0) == 64 + h, f32) + cast(cast(text, i32), f32) * 0
}
model prefill(text: u8[1, 4]) { return y = sum(cast(text, f32)) }
N
expect 0 "" "$NETC" generate counts.net --device cpu --temperature 0 -q --prompt abcdefg --length 4
[ "$(cat .out)" = abcdefgGHIJ ] && pass || fail "a prefill without states took the prompt: $(cat .out)"
expect 1 "it does not write all of its states" "$NETC" generate counts.net --device cpu --prompt abcdefg --prefill prefill
expect 1 "has no entry 'none'" "${G[@]}" --prefill none
expect 1 "repetition-penalty needs a number above 0" "${G[@]}" --repetition-penalty -1
expect 0 "" "${G[@]}" --length 60 --temperature 0 --repetition-penalty 1
cmp -s greedy .out && pass || fail "a penalty of 1 is one"
expect 0 "" "${G[@]}" --length 60 --temperature 0 --repetition-penalty 1000
[ "$(tail -c +2 .out | head -c 30 | fold -w1 | sort | uniq -d | wc -l)" -le 1 ] && pass || fail "said again for all the penalty: $(cat .out)"
expect 1 "hold a NaN, or nothing finite" "${G[@]}" --entry odd --prompt A
expect 1 "the temperature is -1" "${G[@]}" --temperature -1
expect 1 "the temperature is 1e+30; it must be from 0 (no draw) to 1e6" "${G[@]}" --temperature 1e30
expect 1 "the repetition penalty is 1e+30; it must be above 0 (1: none), at most 1e6" "${G[@]}" --repetition-penalty 1e30
expect 1 "top_p is 2" "${G[@]}" --top-p 2
expect 1 "--top-p needs a number above 0, not '0'" "${G[@]}" --top-p 0 # (to the library it means: from all)
expect 1 "cannot open none.safetensors" "$NETC" generate gpt.net "${SHAPE[@]}" --weights none.safetensors
# Several texts are written when they are whole: what there is of them when Ctrl-C comes, too.
cat >slow.net <<'N'
model next(text: u8[2, 1]) {
    scratch state h: i32[] = 0
    h <- h + 1
    return logits = cast(expand(iota(256), 0) == 65, f32) + cast(cast(text, i32), f32) * 0
}
N
"$NETC" generate slow.net --device cpu --temperature 0 -q --prompt x --length 30000000 >some 2>some.err &
pid=$!
wait_for $pid grep -q '^SigCgt:.*[2367abef]$' /proc/$pid/status # Ctrl-C is caught
ticks() { awk '{ print $14 + $15 }' /proc/$pid/stat; }          # of processor time
worked() { [ "$(ticks)" -gt $((from + 5)) ]; }
from=$(ticks); wait_for $pid worked
kill -INT $pid; wait $pid; code=$?
[ $code -eq 130 ] && grep -q "writing was stopped" some.err && pass || fail "Ctrl-C: exit $code: $(cat some.err)"
[ "$(grep -c '^xAA*$' some)" = 2 ] && grep -q -- '--- 2 of 2 ---' some && pass || fail "what there was is lost: $(head -c 300 some)"
finish
