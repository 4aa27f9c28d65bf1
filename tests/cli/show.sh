#!/bin/bash
# What is in files: tensors, arrays, compiled models; and what is in none.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
dim batch = 2
model net(x: f32[batch, 3]) {
    param w: f32[3] = 2
    param rows: f32[4, 3] = iota([4, 3], 0, f32)
    return y = sum(x * w, 1) + sum(rows), n = argmax(x)
}
N
expect 0 "" "$NETC" init m.net -o m.safetensors
expect 0 "m.safetensors: safetensors, 2 tensors, 15 elements, 60 bytes" "$NETC" show m.safetensors
shown() { grep -qxF -- "$1" "$W/.out" && pass || fail "no line '$1' in: $(cat "$W/.out")"; }
shown "  netc.model: m.net"
shown "w     f32[3]     2 to 2, mean 2, deviation 0"
shown "rows  f32[4, 3]  0 to 3, mean 1.5, deviation 1.118"
expect 0 "" "$NETC" m.net -o m.bin --target cpu
expect 0 "m.bin: a compiled model" "$NETC" show m.bin
shown "  net(x: f32[2, 3]) -> y: f32[2], n: i32[2]"
shown "  precision f32"
printf 'model make() { return x = log(tensor([[1.0, 0.0], [1.0, 1.0]])) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x.npy --device cpu
expect 0 "x.npy: f32[2, 2], 0 to 0, mean 0, deviation 0; 1 not finite" "$NETC" show x.npy
expect 0 "x.npy" "$NETC" show m.bin x.npy
# A name with control characters is shown without them.
header='{"a\u001b[31m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s\0\0\0\0" "$header" >odd.safetensors
"$NETC" show odd.safetensors >"$W/.out" 2>&1; grep -q $'\033' "$W/.out" && fail "an escape came through" || pass
grep -q '^odd.safetensors: safetensors, 1 tensor, ' "$W/.out" && pass || fail "1 tensor: $(head -1 "$W/.out")"
grep -q 'a.*\[31m  *f32\[1\]  0$' "$W/.out" && pass || fail "the odd name: $(cat "$W/.out")"
expect 1 "cannot open none.npy" "$NETC" show none.npy
expect 1 "m.net is a model's text: netc inspect" "$NETC" show m.net
head -c 1000 m.bin >cut.bin
expect 1 "cut.bin is damaged" "$NETC" show cut.bin
head -c 20 m.safetensors >cut.safetensors
expect 1 "cut.safetensors" "$NETC" show cut.safetensors
: >empty.npy
expect 1 "empty.npy is empty" "$NETC" show empty.npy m.safetensors
shown "  netc.model: m.net"
# Folders of images, as data sets are; and of nothing that is read.
mkdir -p photos/cat photos/dog/more flat other
touch photos/cat/a.png photos/cat/b.jpg photos/dog/more/c.jpeg flat/a.png other/notes.txt
expect 0 "photos: 3 images, whose labels are their folders:" "$NETC" show photos
shown "  0  cat  2"
shown "  1  dog  1"
expect 0 "1 image without labels" "$NETC" show flat/
expect 1 "other holds no model.safetensors, no .npy files and no PNG or JPEG images" "$NETC" show other
touch photos/d.png
expect 1 "photos holds images next to folders of classes" "$NETC" show photos
mkdir model && cp m.safetensors model/model.safetensors
expect 0 "2 tensors" "$NETC" show model
expect 1 "give files to show" "$NETC" show
printf '{"step":1,"epoch":0.1,"loss":0.5,"seconds":0.1}\n{"step":2,"epoch":0.2,"loss":0.25,"seconds":0.2}\n' >run.jsonl
expect 0 "run.jsonl: the log of a training, 2 lines of JSON, the last:" "$NETC" show run.jsonl
shown '  {"step":2,"epoch":0.2,"loss":0.25,"seconds":0.2}'
# Files of tokens: their header says how wide they are.
tokens() { printf '%b' "$1\x00\x00\x00$(printf '\\x00%.0s' $(seq 1012))$2"; }
tokens '\x88\xd8\x34\x01\x01\x00\x00\x00\x03' '\x48\x00\x01\x0b\x05\x00' >u.bin
expect 0 "u.bin: 3 tokens of 16 bits, 5 to 2817, the first 72 2817 5" "$NETC" show u.bin
tokens '\xa1\xd9\x34\x01\x07\x00\x00\x00\x01' '\x70\x11\x01\x00' >w.bin
expect 0 "w.bin: 1 token of 32 bits, 70000 to 70000, the first 70000" "$NETC" show w.bin
head -c 1028 u.bin >cut.bin
expect 1 "its header says 3 tokens of 16 bits, but 4 bytes follow it" "$NETC" show cut.bin
finish
