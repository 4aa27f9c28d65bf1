#!/bin/bash
# Tables, .npz and folders of arrays into train, predict and run, and out of run and predict; --watch by patterns; what
# Python's own zipfile and csv read and write; wrong ones are said with file and line.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
use nn
use optim
dim batch = 2
fn block(x) { return relu(linear(x, 4) as attn) + (linear(x, 4) as mlp) }
model net(x: f32[batch, 3], label: f32[batch, 1]) {
    h = linear(x, 4) as stem
    for i in 0..2 { h = block(h) as h[i] }
    tap h as seen
    y = linear(h, 1) as top
    return loss = mean(square(y - label)), y
}
model twice(x: f32[batch, 3]) { return y = x * 2, s = sum(x, axis = 1) }
model pixels(image: u8[batch, 2, 2], label: i64[batch]) {
    return z = sum(cast(image, f32), axis = [1, 2]) + cast(label, f32)
}
train net {
    minimize loss
    update adamw(lr = 0.01)
}
N
DATA=(--data x=t.csv:a-c --data label=t.csv:target --device cpu)
printf 'a,b,c,target\n1,2,3,1\n1,2,4,2\n2,2,3.5,1\n3,2,-1e-2,4\n' >t.csv
RUN=("$NETC" run m.net --entry twice --device cpu)

# into training, evaluation by a split, and back out of predict as a table
expect 0 "step 8/8" "$NETC" train m.net "${DATA[@]}" --epochs 4 -q --save w.safetensors
expect 0 "" "$NETC" predict m.net --entry net --weights w.safetensors "${DATA[@]}" -o y=y.csv -q
expect 0 "" "$NETC" predict m.net --entry net --weights w.safetensors "${DATA[@]}" -o y=y.npy -q
[ "$("$NETC" show y.csv | cut -d' ' -f2-)" = "$("$NETC" show y.npy | cut -d' ' -f2-)" ] && pass || fail "y.csv differs from y.npy"
gzip -k t.csv
expect 0 "y f32[4, 3] 2 4 6 2 4 8 4 4 ..." "${RUN[@]}" --input x=t.csv.gz:0-2
printf '9,1,2,3,4\n-9,5,6,7,255\n' >p.csv # no line of names; an image's elements side by side
expect 0 "z f32[2] 19 264" "$NETC" run m.net --entry pixels --input image=p.csv:1-4 --input label=p.csv:0 --device cpu

# into run, files without a header: elements of the input's type, as --data reads them
printf '\0\0\200\77\0\0\0\100\0\0\100\100' >raw # 1, 2, 3 of f32
expect 0 "y f32[1, 3] 2 4 6" "${RUN[@]}" --input x=raw
expect 0 "y f32[1, 3] 2 4 6" "${RUN[@]}" --input x=raw:raw
cp raw raw.bin && gzip raw.bin && cp raw.bin.gz raw.gz
expect 1 "what is inside (or give raw.gz:raw to read its bytes as elements)" "${RUN[@]}" --input x=raw.gz
expect 0 "y f32[1, 3] 2 4 6" "${RUN[@]}" --input x=raw.bin.gz
expect 0 "y f32[1, 3] 2 4 6" "${RUN[@]}" --input x=/dev/stdin <raw
expect 0 "y f32[1, 3] 2 4 6" "${RUN[@]}" --input x=<(cat raw)
printf x >>raw
expect 1 "raw has 13 bytes, not a whole number of f32 elements" "${RUN[@]}" --input x=raw

# what has no name is known by its contents: a table where floats or a column are wanted, an archive
for how in cat "tr , ;" "tr , \\t" "gzip -c"; do
    expect 0 "y f32[4, 3] 2 4 6 2 4 8" "${RUN[@]}" --input x=<($how <t.csv):0-2
done
expect 0 "y f32[4, 3] 2 4 6 2 4 8" "${RUN[@]}" --input x=/dev/stdin:a-c <t.csv
expect 0 "y f32[4, 3] 2 4 6 2 4 8" "${RUN[@]}" --input x=<(cut -d, -f1-3 t.csv)
expect 1 "/dev/stdin: an example of the model's input is f32[3], which is 3 of the table's columns, not 1" "${RUN[@]}" --input x=/dev/stdin <<<'hello'
cp t.csv t.data
expect 1 "t.data is text, which an input of f32 cannot take; a table of numbers must be named .csv or .tsv" "${RUN[@]}" --input x=t.data
if [ -w /dev/shm ]; then # files there have names
    shared=$(mktemp -p /dev/shm netc.XXXXXX.data) && cp t.csv "$shared"
    expect 1 "$shared is text, which an input of f32 cannot take" "${RUN[@]}" --input x="$shared"
    rm -f "$shared"
fi

# out of run: tables and archives, which Python reads, and its own
expect 0 "" "${RUN[@]}" --input x=t.csv:a-c -o y=out.csv -o s=out.tsv
[ "$(cat out.csv)" = $'2,4,6\n2,4,8\n4,4,7\n6,4,-0.02' ] && pass || fail "out.csv: $(cat out.csv)"
[ "$(cat out.tsv)" = $'6\n7\n7.5\n4.99' ] && pass || fail "out.tsv: $(cat out.tsv)"
expect 0 "" "${RUN[@]}" --input x=t.csv:a-c -o y=out.npz -o s=out.npz
expect 0 "y     f32[4, 3]" "$NETC" show out.npz
holds "npz, 2 tensors, 16 elements"
expect 0 "y f32[4, 3] 4 8 12" "${RUN[@]}" --input x=out.npz:y
expect 0 "y f32[4, 3] 4 8 12" "${RUN[@]}" --input x=/dev/stdin:y <out.npz
expect 0 "y f32[4, 3] 4 8 12" "${RUN[@]}" --input x=<(cat out.npz):y
cat >python.py <<'P'
import csv, random, struct, subprocess, sys, zipfile
netc = sys.argv[1:]
z = zipfile.ZipFile("out.npz")
assert z.testzip() is None and z.namelist() == ["y.npy", "s.npy"], z.namelist()
assert struct.unpack("<4f", z.read("s.npy")[-16:]) == (6.0, 7.0, 7.5, struct.unpack("<f", struct.pack("<f", 4.99))[0])
def npy(rows):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 3), }" % len(rows)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + b"".join(struct.pack("<3f", *r) for r in rows)
for seed in range(12):
    r = random.Random(seed)
    rows = [[r.choice([r.gauss(0, 1), r.gauss(0, 1) * 10 ** r.randint(-30, 30), r.randint(-9, 9)]) for _ in range(3)] for _ in range(r.randint(1, 40))]
    with open("in.csv", "w", newline=r.choice(["", "\n"])) as f:
        w = csv.writer(f, quoting=r.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), delimiter=r.choice([",", ";"]))
        if r.random() < 0.5: w.writerow(["first", 'a "b", c', "third"])
        w.writerows(rows)
    with zipfile.ZipFile("in.npz", "w", r.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as f:
        with f.open("x.npy", "w", force_zip64=r.random() < 0.5) as g: g.write(npy(rows))
        if r.random() < 0.5: f.writestr("other.npy", npy(rows[:1]))
    for name in "in.csv", "in.npz:x":
        subprocess.run(netc + ["--input", "x=" + name, "-o", "y=back.csv"], check=True)
        got = [[float(v) for v in row] for row in csv.reader(open("back.csv"))]
        f32 = lambda v: struct.unpack("<f", struct.pack("<f", v))[0]
        assert [[f32(v) for v in row] for row in got] == [[f32(2 * f32(v)) for v in row] for row in rows], (seed, name)
P
expect 0 "" python3 python.py "${RUN[@]}"

# f32 rounds to the 16-bit floats of an input: .npy has no bf16
cat >half.net <<'N'
dim batch = 2
model half(x: bf16[batch, 3], h: f16[batch, 3]) { return y = x, z = cast(h, f32) + cast(x, f32) }
model made() { return a = tensor([[1.00390625, -3, 65519], [0.1, inf, 6e-8]]), b = tensor([[1.0, 2, 65520], [0, 0, 0]]) }
N
expect 0 "" "$NETC" run half.net --entry made -o a=a.npy -o b=b.npy --device cpu
expect 0 "y bf16[2, 3] 1 -3 65536 0.100098 inf 6.00703e-08" "$NETC" run half.net --entry half --input x=a.npy --input h=a.npy --device cpu
expect 0 "" "$NETC" predict half.net --entry half --data x=a.npy --data h=a.npy -o y=y16.npz -o z=y16.npz --device cpu -q
expect 0 "y f32[2, 3] 2 -6 131072 0.200195 inf" "${RUN[@]}" --input x=y16.npz:y
expect 0 "y f32[2, 3] 4.00781 -12 262080" "${RUN[@]}" --input x=y16.npz:z
expect 0 "" "$NETC" predict half.net --entry half --data x=y16.npz:y --data h=a.npy -o y=again.npz --device cpu -q # its own output
expect 0 "y f32[2, 3] 2 -6 131072" "${RUN[@]}" --input x=again.npz
expect 1 "input 'h': b.npy: example 0 holds a number that is too large for f16" "$NETC" predict half.net --entry half --data x=a.npy --data h=b.npy -o y=no.npy --device cpu
expect 1 "b.npy: element 2 is too large for f16" "$NETC" run half.net --entry half --input x=a.npy --input h=b.npy --device cpu

# a folder: its files in the order of their names, an example each or several
mkdir f
printf '1,2,3\n4,5,6\n' >f/a.csv
expect 0 "" "$NETC" run m.net --entry twice --input x=f -o y=f/b.npy --device cpu
printf 'model one() { return x = cast(iota(3), f32) }\n' >one.net
expect 0 "" "$NETC" run one.net -o x=f/c.npy --device cpu
expect 0 "s f32[5] 6 15 12 30 3" "${RUN[@]}" --input x=f
expect 0 "" "$NETC" predict m.net --entry twice --data x=f -o s=s.csv --device cpu -q
[ "$(tr '\n' ' ' <s.csv)" = "6 15 12 30 3 " ] && pass || fail "s.csv: $(cat s.csv)"
echo text >f/readme.txt
expect 1 "f/readme.txt is not an array, and all files of f are read as arrays" "${RUN[@]}" --input x=f
rm f/readme.txt; printf '1,2\n' >f/d.csv
expect 1 "f/d.csv: an example of the model's input is f32[3]" "${RUN[@]}" --input x=f
mkdir empty
expect 1 "empty" "${RUN[@]}" --input x=empty

# a folder of images: one batch of all of them
python3 - <<'P'
import os, struct, zlib
def chunk(t, d): return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
os.mkdir("img")
for i in range(3):
    raw = zlib.compress((b"\0" + bytes([10 * i, i, 1]) * 4) * 4)
    open(f"img/{i}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)) + chunk(b"IDAT", raw) + chunk(b"IEND", b""))
P
printf 'dim batch = 2\nmodel m(image: u8[batch, 4, 4, 3]) { return y = mean(cast(image, f32), axis = [1, 2]) }\n' >im.net
if "$NETC" run im.net --input image=img -o y=im.csv --device cpu 2>&1 | grep -q spng; then
    skip "no libspng: no folder of images is run"
else
    [ "$(tr '\n' ' ' <im.csv)" = "0,0,1 10,1,1 20,2,1 " ] && pass || fail "im.csv: $(cat im.csv)"
fi

# wrong tables, before the work
expect 1 "t.csv: an example of the model's input is f32[3], which is 3 of the table's columns, not 4; pick them as in FILE:NAME, FILE:0 or FILE:0-2" "${RUN[@]}" --input x=t.csv
expect 1 "t.csv has no column 'targets'; did you mean 'target'?" "$NETC" train m.net --data x=t.csv:0-2 --data label=t.csv:targets --device cpu
printf 'a,b,c\n1,2,3\n4,5\n' >ragged.csv
expect 1 "ragged.csv:3: 2 columns, where the first line has 3" "${RUN[@]}" --input x=ragged.csv
printf 'a,b,c\n1,2,3\n4,five,6\n' >words.csv
expect 1 "words.csv:3: column 1 ('b'): 'five' is no number; columns of text cannot be read" "${RUN[@]}" --input x=words.csv
sed -i 's/five/N\/A/' words.csv
expect 1 "'N/A' is no number; write nan for a missing number" "${RUN[@]}" --input x=words.csv
for mark in '\xff\xfe1\0,\0002\0\n\0' '\xfe\xff\0001\0,\0002\0\n'; do # as a spreadsheet's "Unicode text"
    printf "$mark" >wide.csv
    expect 1 "wide.csv is UTF-16: save it as UTF-8" "${RUN[@]}" --input x=wide.csv
done
printf 'True,FALSE,2\n' >truth.csv # as Python writes a bool
expect 0 "y f32[1, 3] 2 0 4" "${RUN[@]}" --input x=truth.csv
printf '1,2,3,4,1\n' >range.csv
expect 1 "'1.5' is not a whole number for u8" bash -c 'echo 1.5,2,3,4,1 >r.csv; exec "$@"' _ "$NETC" run m.net --entry pixels --input image=r.csv:0-3 --input label=r.csv:4 --device cpu
expect 1 "out.npz holds 2 arrays; say which, as in out.npz:y" "${RUN[@]}" --input x=out.npz
expect 1 "out.npz has no array 'z'; there are 'y' and 's'" "${RUN[@]}" --input x=out.npz:z
head -c 200 out.npz >cut.npz
expect 1 "cut.npz is damaged" "${RUN[@]}" --input x=cut.npz:y
expect 1 "no output 'zz'" "${RUN[@]}" --input x=t.csv:a-c -o zz=no.csv
[ -e no.csv ] && fail "no.csv was written" || pass

# --watch: names, and patterns of names and of scopes around them
watched() { # PATTERN WANT...: the values whose means are logged
    local pattern=$1 got; shift
    expect 0 "" "$NETC" train m.net "${DATA[@]}" --watch "$pattern" --log log -q
    got=$(grep -o '"[^"]*\.mean"' log | sort -u | tr -d '"' | sed 's/\.mean$//' | tr '\n' ' ')
    [ "$got" = "$(printf '%s ' "$@")" ] && pass || fail "--watch '$pattern' logs $got"
}
watched 'h.*.attn' h.0.attn.bias h.0.attn.weight h.1.attn.bias h.1.attn.weight
watched 'h.1' h.1.attn.bias h.1.attn.weight h.1.mlp.bias h.1.mlp.weight
watched '*.attn.weight' h.0.attn.weight h.1.attn.weight
watched 'see?' seen
watched stem.weight.m stem.weight.m # of the optimizer, by its whole name only
expect 1 "output or tap 'g.*'; there are" "$NETC" train m.net "${DATA[@]}" --watch 'g.*'
expect 0 "" "$NETC" train m.net "${DATA[@]}" --watch 'h.0.*' --watch 'h.*.mlp' --tensorboard tb -q
[ "$(cut -d, -f4 tb/scalars.csv | grep -c 'h.0.mlp.weight.mean')" = "$(cut -d, -f4 tb/scalars.csv | grep -c 'h.1.mlp.weight.mean')" ] && pass || fail "a value that two patterns match"
grep -q 'h.0.attn.weight' <(strings -a tb/events* 2>/dev/null || cat tb/events*) && pass || fail "no histogram of what a pattern matches"
finish
