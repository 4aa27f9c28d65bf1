#!/bin/bash
# netc tokenize: tokens of three texts equal to the reference tokenizers' (tests/golden/tokens/make.py), back again, files
# of tokens as data, what is refused.
. "$(dirname "$0")/../lib.sh"
G=$ROOT/tests/golden/tokens
T=("$NETC" tokenize)
for text in code mixed broken; do
    for kind in "gpt2:$G/gpt2.json" "vocab:$G/vocab.json" "vocab:$G/merges.txt" "llama3:$G/llama3.json" "ranks:$G/small.tiktoken --pattern cl100k"; do
        how=${kind#*:} want=$G/$text.${kind%%:*}.ids
        plain=; [ "${kind%%:*}" = vocab ] && plain=--plain
        if "${T[@]}" "$G/$text.txt" --tokenizer $how $plain >ids 2>err && cmp -s ids "$want"; then pass; else fail "$text by $how: $(cmp ids "$want") $(cat err)"; fi
        "${T[@]}" --decode ids --tokenizer $how >back && cmp -s back "$G/$text.txt" && pass || fail "$text by $how does not come back"
        "${T[@]}" "$G/$text.txt" --tokenizer $how $plain -o t.bin 2>err && [ "$(head -c 12 t.bin | od -An -td4 | tr -s ' ')" = " 20240520 1 $(wc -w <"$want")" ] && pass || fail "header: $(head -c 12 t.bin | od -An -td4) $(cat err)"
        "${T[@]}" --decode t.bin --tokenizer $how | cmp -s - "$G/$text.txt" && pass || fail "$text in a file of tokens by $how does not come back"
        tail -c +1025 t.bin | od -An -v -w2 -tu2 | tr -d ' ' | tr '\n' ' ' | sed 's/ $/\n/' | cmp -s - "$want" && pass || fail "the file's tokens of $text by $how"
    done
done
# A folder, standard input, several files, a token behind each, no header.
mkdir gpt2 both && cp "$G/vocab.json" "$G/merges.txt" gpt2 && cp "$G/gpt2.json" both/tokenizer.json
expect 0 "" "${T[@]}" --tokenizer gpt2 < <(printf 'Hello')
cp .out hello
printf 'Hello' >a.txt && printf '' >empty.txt
expect 0 "" "${T[@]}" a.txt empty.txt - --tokenizer both --end '<|pad|>' </dev/null
{ sed 's/$/ 701/' hello; echo 701; echo 701; } | cmp -s - .out && pass || fail "tokens behind files: $(cat .out)"
expect 0 "16 bits" "${T[@]}" a.txt empty.txt --tokenizer both --end '<|pad|>' -o x.bin --raw
"${T[@]}" --decode x.bin --raw --tokenizer both >.out && [ "$(cat .out)" = 'Hello<|pad|><|pad|>' ] && pass || fail "raw: $(cat .out)"
# Standard input goes on where it was read up to, and must be there.
printf 'one\ntwo\n' >two.txt
(read -r _; "${T[@]}" --tokenizer bytes -o x.bin --end o) <two.txt 2>err
"${T[@]}" --decode x.bin --tokenizer bytes | cmp -s - <(printf 'two\no') && pass || fail "what is left of standard input: $(cat err; od -c x.bin | tail)"
expect 1 "standard input is closed" "${T[@]}" --tokenizer bytes -o x.bin 0<&-
gzip -c two.txt >two.gz && expect 0 "111 110 101 10 116 119 111 10" "${T[@]}" two.gz --tokenizer bytes
expect 0 "111 110 101" "${T[@]}" --tokenizer bytes <two.gz
gzip -k a.txt && expect 0 "5 bytes" "${T[@]}" a.txt.gz --tokenizer gpt2 -o x.bin
# A word of the vocabulary may be called as a part of a tokenizer.json is; that one is no vocabulary.
mkdir words && echo '{"model": 0, "a": 1, "merges": 2}' >words/vocab.json && echo '#version: 0.2' >words/merges.txt
expect 0 1 "${T[@]}" --tokenizer words < <(printf a)
cp "$G/gpt2.json" words/vocab.json && expect 1 "is not a vocabulary: tokens and their numbers" "${T[@]}" a.txt --tokenizer words
# Bytes; texts that begin without a space; long pieces take no quadratic time.
expect 0 "97 255" "${T[@]}" --tokenizer bytes < <(printf 'a\377')
sed 's/"add_prefix_space":false/"add_prefix_space":true/; s/"add_prefix_space": false/"add_prefix_space": true/' "$G/gpt2.json" >space.json
"${T[@]}" a.txt --tokenizer space.json >.out; printf ' Hello' | "${T[@]}" --tokenizer gpt2 | cmp -s - .out && pass || fail "add_prefix_space: $(cat .out)"
head -c 3000000 /dev/zero | tr '\0' 'a' >long.txt
LIMIT=60 expect 0 "3000000 bytes" "${T[@]}" long.txt --tokenizer gpt2 -o x.bin
"${T[@]}" --decode x.bin --tokenizer gpt2 | cmp -s - long.txt && pass || fail "a piece of 3 MB does not come back"

# As data: with and without header.
cat >m.net <<'N'
use optim
const vocab = 700
dim batch = 1
model m(tokens: i32[batch, 9] in 0..vocab) {
    param w: f32[vocab] = 0
    return loss = mean(w[tokens]), total = cast(sum(cast(tokens, i64)), f32)
}
train m { minimize loss
    update sgd(lr = 0.1) }
N
printf '%s' "$(head -c 2000 "$G/code.txt")" >some.txt
expect 0 "" "${T[@]}" some.txt --tokenizer gpt2 -o h.bin
expect 0 "" "${T[@]}" some.txt --tokenizer gpt2 -o r.bin --raw
sum() { "$NETC" eval m.net --data "tokens=$1" --json 2>&1; }
sum h.bin >h.out; sum r.bin:u16 >r.out
cat >u8.net <<'N'
use optim
dim batch = 1
model m(text: u8[batch, 5]) {
    param w: f32[] = 1
    return loss = square(w), total = sum(cast(text, f32))
}
train m { minimize loss
    update sgd(lr = 0.1) }
N
"${T[@]}" some.txt --tokenizer bytes -o b.bin 2>err
"$NETC" eval u8.net --data text=b.bin --json >b.out 2>&1; "$NETC" eval u8.net --data text=some.txt --json >t.out 2>&1
grep -q total b.out && cmp -s b.out t.out && pass || fail "bytes as tokens with a header: $(cat b.out t.out)"
expect 1 "16-bit tokens need an input of i32, u32 or i64" "$NETC" eval u8.net --data text=h.bin
grep -q total h.out && cmp -s h.out r.out && pass || fail "the same tokens with and without a header: $(cat h.out r.out)"

# What is refused.
bad() { local why=$1; shift; expect 1 "$why" "${T[@]}" "$@"; }
bad "name a tokenizer with --tokenizer" a.txt
bad "cannot open none.json" a.txt --tokenizer none.json
bad "neither a tokenizer.json nor vocab.json" a.txt --tokenizer .
bad "cannot open none: No such file or directory; it is a file or a folder with a tokenizer.json" a.txt --tokenizer none
bad "give it with --pattern" a.txt --tokenizer "$G/small.tiktoken"
bad "a.txt:1: a token in base64, a space and its number are expected" a.txt --tokenizer a.txt
bad "there is no pattern 'gpt9'" a.txt --tokenizer "$G/small.tiktoken" --pattern gpt9
bad "has no token '<|none|>'" a.txt --tokenizer gpt2 --end '<|none|>'
bad "has no token '<|endoftext|>' (files of ranks and 'bytes' have no special tokens)" a.txt --tokenizer "$G/small.tiktoken" --pattern gpt2 --end '<|endoftext|>' -o x.bin
bad "has no token '<|endoftext|>' (files of ranks and 'bytes' have no special tokens)" a.txt --tokenizer "$G/small.tiktoken" --pattern gpt2 --end '<|endoftext|>'
bad "cannot open none.txt" none.txt --tokenizer gpt2 -o x.bin
bad "tokens are written as .bin" a.txt --tokenizer gpt2 -o x.npy
bad "is not a regular file, which a token file with a header must be" a.txt --tokenizer gpt2 -o /dev/null
edit() { python3 - "$G/gpt2.json" "$1" >edited.json <<'P'
import json, sys
t = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(t, sys.stdout)
P
}
if command -v python3 >/dev/null; then
    while IFS='|' read -r change why; do
        edit "$change"; bad "$why" a.txt --tokenizer edited.json
    done <<'R'
t["normalizer"] = {"type": "NFC"}|the normalizer 'NFC' is not supported
t["model"]["type"] = "Unigram"|the model 'Unigram' is not supported
t["model"]["type"] = "WordPiece"|the model 'WordPiece' is not supported
t["model"]["byte_fallback"] = True|byte_fallback is not supported
t["model"]["end_of_word_suffix"] = "</w>"|end_of_word_suffix '</w>' is not supported
t["model"]["dropout"] = 0.1|the model's dropout is not supported
t["model"]["vocab"]["▁the"] = 650|token '▁the' is not of a byte-level vocabulary
t["model"]["merges"][3] = ["x", "no such"]|is damaged: merge 4
t["model"]["vocab"]["a"] = -1|which is not a number below 2^24
t["pre_tokenizer"] = {"type": "Metaspace"}|the pre_tokenizer 'Metaspace' is not supported
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "\\w+?"}, "behavior": "Isolated"}|cannot be used: \w is not supported
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed"}|a Split with the behavior 'Removed'
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a\\p"}, "behavior": "Isolated"}|a category's name is missing
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a" + "{1}" * 1000000}, "behavior": "Isolated"}|cannot be used: nested too deeply
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a" + "{1}" * 49 + "{1}"*2}, "behavior": "Isolated"}|cannot be used: nested too deeply
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(?:" * 6 + "){1000}" * 6 + "a"}, "behavior": "Isolated"}|cannot be used: too long
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated"}|cannot be used: it may match nothing
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "a{,3}"}, "behavior": "Isolated"}|cannot be used: {,m} is not supported
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "\\pL"}, "behavior": "Isolated"}|cannot be used: a category's name is missing, in braces
t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "\\xe9"}, "behavior": "Isolated"}|cannot be used: \x80 and above
t["pre_tokenizer"] = None|without a pre_tokenizer
t["decoder"] = {"type": "WordPiece"}|the decoder 'WordPiece' is not supported
t["truncation"] = {"max_length": 3}|truncation is not supported
t["added_tokens"][0]["lstrip"] = True|with lstrip is not supported
t["added_tokens"][0]["id"] = 3|has two texts
t["added_tokens"][0]["content"] = "a\0b"|\u0000 in a string cannot be read
t["added_tokens"].append(dict(t["added_tokens"][0], id=705))|the added token '<|endoftext|>' appears twice
t["model"]["merges"].append(t["model"]["merges"][0])|appears twice
R
    # Patterns that go back and forth: what takes no more than some steps a byte goes on.
    split() { edit 't["pre_tokenizer"]["pretokenizers"] = [{"type": "Split", "pattern": {"Regex": "'"$1"'"}, "behavior": "Isolated"}, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]; t["pre_tokenizer"]["type"] = "Sequence"'; }
    printf 'word\n%055d' 0 >zeros.txt
    split '.{1,3}+r' && LIMIT=60 bad "the pattern '.{1,3}+r' takes too long at byte 3" zeros.txt --tokenizer edited.json
    split '(?:aa)+b' && LIMIT=60 bad "takes too long at byte 0" long.txt --tokenizer edited.json
    split '(?:aa)+' && LIMIT=60 expect 0 "3000000 bytes" "${T[@]}" long.txt --tokenizer edited.json -o x.bin
    split 'a{1,3}+' && LIMIT=60 expect 0 "3000000 bytes" "${T[@]}" long.txt --tokenizer edited.json -o x.bin
    # Thousands of special tokens that begin alike, the longest of which counts.
    edit 't["added_tokens"] += [dict(t["added_tokens"][0], id=1000 + i, content="<" * 9 + str(i)) for i in range(20000)]'
    { printf '<<<<<<<<<123450<<<<<<<<<99999'; head -c 1000000 /dev/zero | tr '\0' '<'; } >many.txt
    LIMIT=60 expect 0 "" "${T[@]}" many.txt --tokenizer edited.json
    [ "$(cut -d' ' -f1-3 .out)" = "13345 $(printf 0 | "${T[@]}" --tokenizer gpt2) 10999" ] && pass || fail "of special tokens that begin alike: $(cut -d' ' -f1-5 .out)"
    edit 't["model"]["merges"] = [m for m in t["model"]["merges"] if "z" not in str(m)]; t["model"]["vocab"] = {k: v for k, v in t["model"]["vocab"].items() if "z" not in k}'
    printf 'a buzz' >z.txt && bad "no token for the byte 0x7a, which stands at 4" z.txt --tokenizer edited.json
else
    skip "no python3: changes of a tokenizer.json"
fi
echo '{"a": 1' >broken.json && bad "is not JSON" a.txt --tokenizer broken.json
echo 'YQ== 0' >ok.tiktoken && echo 'YQ=' >broken.tiktoken && bad "broken.tiktoken:1: a token in base64" a.txt --tokenizer broken.tiktoken --pattern gpt2
{ cat "$G/merges.txt"; echo 'one two three'; } >gpt2/merges.txt && bad "two tokens and a space" a.txt --tokenizer gpt2
{ cat "$G/small.tiktoken"; printf '%s 900\n' "$(head -c 3000 /dev/zero | base64 -w0)"; } >long.tiktoken
bad "a token of 3000 bytes; at most 2048 are supported" a.txt --tokenizer long.tiktoken --pattern gpt2
{ cat "$G/merges.txt"; tail -1 "$G/merges.txt"; } >gpt2/merges.txt && bad "appears twice" a.txt --tokenizer gpt2
{ cat "$G/merges.txt"; echo 'Hello Q'; } >gpt2/merges.txt && bad "'Hello' is not in the vocabulary" a.txt --tokenizer gpt2
cp "$G/merges.txt" gpt2
expect 1 "token 1 is 99999, which the tokenizer does not have" "${T[@]}" --decode --tokenizer gpt2 < <(echo 1 99999)
expect 1 "neither tokens with a header nor numbers" "${T[@]}" --decode --tokenizer gpt2 < <(echo one)
# Files of tokens that are damaged.
head -c -1 h.bin >odd.bin && bad "is damaged: its header says" --decode odd.bin --tokenizer gpt2
data() { local why=$1; shift; expect 1 "$why" "$NETC" eval m.net --data "tokens=$1"; }
data "bytes follow it; it is damaged" odd.bin
head -c 500 h.bin >short.bin && data "ends within the header" short.bin
{ head -c 4 h.bin; printf '\3\0\0\0'; tail -c +9 h.bin; } >version.bin && data "a token file of version 3" version.bin
head -c -1 r.bin >odd.bin && data "not a whole number of 16-bit tokens" odd.bin:u16
{ head -c 40 r.bin; printf '\377\377'; tail -c +43 r.bin; } >wide.bin && data "holds 65535, the model says its values are in 0..700" wide.bin:u16
# Larger than should lie in memory: 100 million tokens, of which a few are no zeros, in a file without blocks.
cat >big.net <<'N'
use optim
dim batch = 4
model m(tokens: i32[batch, 1025] in 0..700) {
    param w: f32[700] = 0.5
    return loss = mean(square(w[tokens] - cast(tokens, f32)))
}
train m { minimize loss
    update sgd(lr = 0.1) }
N
cp r.bin big.bin; truncate -s 200000000 big.bin
cp r.bin small.bin; truncate -s 100000 small.bin
steps() { "$NETC" train big.net --data "tokens=$1:u16" --steps 10 --no-shuffle --report-every 1 --device cpu 2>&1 | grep -oE 'loss [0-9.e+-]+'; }
steps big.bin >big.out; steps small.bin >small.out
[ "$(wc -l <big.out)" -ge 10 ] && cmp -s big.out small.out && pass || fail "tokens that stay in their file: $(head -3 big.out) against $(head -3 small.out)"
printf '\377\377' | dd of=big.bin bs=1 seek=10000 conv=notrunc 2>/dev/null
expect 1 "big.bin: token 5000 is 65535, the model says its values are in 0..700" "$NETC" train big.net --data tokens=big.bin:u16 --steps 10 --no-shuffle --device cpu
finish
