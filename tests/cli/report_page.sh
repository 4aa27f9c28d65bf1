#!/bin/bash
# netc report: one page that needs nothing else. What it holds, how large it is, text of the user's own in it, bad input;
# and in a Chromium, where there is one, that it draws without an error, folds and unfolds, and shows what is clicked.
. "$(dirname "$0")/../lib.sh"
cat >mlp.net <<'N'
use nn
use optim
dim batch = 4
fn block(x) { return relu(linear(x, 6) as inner) }
model mlp(image: f32[batch, 6], label: f32[batch, 2]) {  # a comment: </script><script>alert(1)</script> <!--
    for i in 0..3 { image = block(image) as layer[i] }
    y = linear(image, 2) as top
    return loss = mean(square(y - label)), y
}
model twice(x: f32[3]) { return y = x * 2 }
train mlp {
    minimize loss
    update adamw(lr = 0.01)
}
N
sed 's/^train.*/&/; /^train/,$d' mlp.net >infer.net
page=(python3 "$ROOT/tests/cli/report_page.py") # reads the data of a page, or opens it

expect 0 "wrote mlp.html" "$NETC" report mlp.net -o mlp.html --target cpu
expect 0 "" "${page[@]}" data mlp.html "d['entry'] == 'train' and d['model'] == 'mlp' and not d['profile'] and not d['logs'] and not d['notes']"
expect 0 "" "${page[@]}" data mlp.html "{'layer.0.inner', 'layer.1.inner', 'layer.2.inner', 'top'} <= scopes"
expect 0 "" "${page[@]}" data mlp.html "{0, 1, 2} == {s[11] for s in d['steps']}" # forward, backward, update
expect 0 "" "${page[@]}" data mlp.html "any('linear(image, 2) as top' in T[t] for _, t in d['lines'])"
expect 0 "" "${page[@]}" data mlp.html "any(T[o[1]] == 'dot' for s in d['steps'] for o in s[14])"
# the numbers are those of inspect and of the plan
"$NETC" inspect mlp.net --target cpu --order --json >inspect.json
expect 0 "" "${page[@]}" same mlp.html inspect.json
# nothing is loaded from anywhere, and only one script is there besides the data
expect 1 "" grep -qE 'src=|href="[^#]|@import|url\([^#]|https?://[^w]' mlp.html
grep -c '</script>' mlp.html | grep -qx 2 && pass || fail "script elements: $(grep -c '</script>' mlp.html)"

# scopes and files called as HTML is; a path that is no UTF-8
d=$'</script><img src=x onerror=boom> \xff'; mkdir -p "${d%%/*}/script><img src=x onerror=boom> "$'\xff'
f="$d/a&b.net"; cp mlp.net "$f"
expect 0 "" "$NETC" report "$f" -o odd.html --target cpu
expect 0 "" "${page[@]}" data odd.html "'onerror' in d['path'] and '&' in d['path']"
grep -c '</script>' odd.html | grep -qx 2 && ! grep -q '<img' odd.html && pass || fail "not escaped: $(grep -n 'onerror' odd.html | cut -c1-200)"
cp odd.html hostile.html

# an inference-only file, another entry, a compiled model
expect 0 "" "$NETC" report infer.net -o infer.html --target cpu
expect 0 "" "${page[@]}" data infer.html "d['entry'] == 'mlp' and 'no train block' in d['notes'][0]"
expect 0 "" "$NETC" report mlp.net --entry twice -o twice.html
expect 0 "" "${page[@]}" data twice.html "d['entry'] == 'twice'"
expect 0 "" "$NETC" mlp.net -o mlp.bin --target cpu
expect 0 "" "$NETC" report mlp.bin -o bin.html
expect 0 "" "${page[@]}" data bin.html "'model.bin' in d['notes'][0] and 'layer.1.inner' in scopes and not any(s[14] for s in d['steps'])"
expect 0 "" "$NETC" report mlp.bin --rebuild -o bin.html
expect 0 "" "${page[@]}" data bin.html "not d['notes'] and any(s[14] for s in d['steps'])"
expect 0 "" "$NETC" report mlp.net --target sm_90 --precision bf16 -o cuda.html
expect 0 "" "${page[@]}" data cuda.html "d['target'] == 'sm_90' and d['roofs']['matmul']['bf16'] > 1e14"

# measured times and logs
"$NETC" profile mlp.net --device cpu --json --repeats 3 --steps 2 >times.json
printf 'model make() { return x = uniform([32, 6], 0, 1), y = uniform([32, 2], 0, 1) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x.npy -o y=y.npy --device cpu
expect 0 "" "$NETC" train mlp.net --data image=x.npy --data label=y.npy --eval-data image=x.npy --eval-data label=y.npy \
    --epochs 3 --report-every 2 --log run.jsonl --device cpu -q
head -c -5 run.jsonl >cut.jsonl
printf '{"step":1,"loss":null}\n{"step":2,"loss":3}\n\n' >gap.jsonl
expect 0 "" "$NETC" report mlp.net --profile times.json --log run.jsonl --log cut.jsonl --log gap.jsonl -o all.html
expect 0 "" "${page[@]}" data all.html "len(d['profile']['rows']) == len(d['steps']) and all(r[3] > 0 for r in d['profile']['rows'])"
expect 0 "" "${page[@]}" data all.html "[l['cut'] for l in d['logs']] == [False, True, False] and d['logs'][2]['series'][0]['y'] == [None, 3]"
expect 0 "" "${page[@]}" data all.html "{'loss', 'eval_loss'} <= {s['name'] for s in d['logs'][0]['series']}"
python3 -c 'for i in range(200000): print("{\"step\":%d,\"loss\":%g}" % (i, 9 if i == 77777 else 1 + i % 7 / 7))' >long.jsonl
expect 0 "" "$NETC" report mlp.net --log long.jsonl -o long.html
expect 0 "" "${page[@]}" data long.html "(lambda s: s['of'] == 200000 and len(s['x']) <= 1600 and max(s['y']) == 9 and s['x'][s['y'].index(9)] == 77777)(d['logs'][0]['series'][0])"

# bad input: said where, and nothing is left behind
no_page() { expect "$@"; [ ! -e no.html ] && pass || fail "a page is left of: $*"; rm -f no.html; }
R=("$NETC" report mlp.net -o no.html)
no_page 1 "name the page to write: netc report MODEL -o report.html" "$NETC" report mlp.net
no_page 1 "a page is written as .html" "$NETC" report mlp.net -o no.json
no_page 1 "no.net" "$NETC" report no.net -o no.html
no_page 1 "has no entry 'zzz'; there are" "${R[@]}" --entry zzz
no_page 1 "unknown target 'zzz'" "${R[@]}" --target zzz
no_page 1 "cannot open none.jsonl: No such file" "${R[@]}" --log none.jsonl
no_page 1 ". is a folder, not a file" "${R[@]}" --log .
printf '{"step":1,"loss":2}\n{"step":2,"loss":\n{"step":3,"loss":2}\n' >bad.jsonl
no_page 1 "bad.jsonl:2 is no JSON" "${R[@]}" --log bad.jsonl
printf '{"loss":2}\n{"step":3,"loss":2}\n' >bad.jsonl
no_page 1 'bad.jsonl:1 is no object with a number "step"' "${R[@]}" --log bad.jsonl
printf '{"step":1,"loss":"high"}\n{"step":3}\n' >bad.jsonl
no_page 1 'bad.jsonl:1 is no number: "loss"' "${R[@]}" --log bad.jsonl
: >empty.jsonl
no_page 1 "empty.jsonl holds no values" "${R[@]}" --log empty.jsonl
no_page 1 "times.txt is no JSON" bash -c 'echo "{" >times.txt; exec "$@"' _ "${R[@]}" --profile times.txt
no_page 1 "run.json holds no profile; 'netc profile MODEL --json' writes one" bash -c 'echo "{\"steps\":3}" >run.json; exec "$@"' _ "${R[@]}" --profile run.json
no_page 1 "is of the entry 'train', not 'twice'" "${R[@]}" --profile times.json --entry twice
sed 's/linear(x, 6)/linear(x, 9)/' mlp.net >other.net
no_page 1 "was measured for another build than this: its row" "$NETC" report other.net --profile times.json -o no.html
sed 's/y - label/y - labels/' mlp.net >wrong.net
no_page 1 "wrong.net:8:" "$NETC" report wrong.net -o no.html
no_page 1 "cannot write no/such/no.html: No such file" "$NETC" report mlp.net -o no/such/no.html
if [ -w /dev/full ]; then expect 2 "cannot write /dev/full" "$NETC" report mlp.net -o /dev/full; fi

# 5,000 operations of the model's own: below 2 MB
python3 - >large.net <<'P'
print("use nn\nuse optim\nmodel large(x: f32[4, 8], label: f32[4, 8]) {")
for i in range(140): print("    x%d = x%s + tanh(layer_norm(linear(x%s, 8) as up%d) as norm%d)" % (i, i - 1 if i else "", i - 1 if i else "", i, i))
print("    return loss = mean(square(x139 - label))\n}\ntrain large {\n    minimize loss\n    update adamw(lr = 0.01)\n}")
P
expect 0 "" "$NETC" report large.net -o large.html --target cuda
expect 0 "" "${page[@]}" data large.html "sum(len(s[14]) for s in d['steps']) > 5000"
[ "$(stat -c %s large.html)" -lt 2000000 ] && pass || fail "large.html has $(stat -c %s large.html) bytes"

# in a browser
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
    skip "no chromium: no page is opened"
else
    for p in all hostile large infer bin cuda; do expect 0 "drawn" "${page[@]}" open "$chromium" "$W/$p.html"; done
    expect 0 "drawn" "${page[@]}" open "$chromium" "$W/long.html"
fi
finish
