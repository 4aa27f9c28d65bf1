#!/bin/bash
# Metrics over a whole data set: equal whatever the batch, a smaller last one included, to those of one batch of all,
# and to what a plain script makes of the logits; left out of training; zero again at the next evaluation.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
cat >m.net <<'NET'
use nn
use metrics
use optim
dim batch = 16
model m(x: f32[batch, 5], label: u8[batch] in 0..7) {
    logits = linear(x, 7)
    p = softmax(logits)[:, 1]
    c = confusion(logits, label)
    return loss = cross_entropy(logits, label), correct = accuracy(logits, label), top3 = top_k(logits, label, 3),
        ppl = perplexity(logits, label), confused = c, macro = f1(c), sure = precision(c), found = recall(c),
        area = auc(p, label == 1), deviation = rmse(logits[:, 0], label), logits, p
}
train m {
    minimize loss
    update sgd(lr = 0.1)
}
NET
cat >data.net <<'NET'
model data() {
    x = normal([101, 5], 1)
    return x, label = cast(minimum(argmax(abs(x), 1) + cast(uniform([101], 0, 2), i32), 5), u8)
}
NET
D=(--data x=x.npy --data label=l.npy --device cpu -q)
expect 0 "" "$NETC" run data.net -o x=x.npy -o label=l.npy --device cpu
expect 0 "" "$NETC" init m.net -o w.safetensors --seed 5
same() { # with BATCH
    expect 0 "" "$NETC" eval m.net "${D[@]}" --weights w.safetensors -D batch="$1" --json -o confused="c$1.npy"
    tr ',' '\n' <"$W/.out" | sed 's/\(\.[0-9]\{3\}\)[0-9]*/\1/' >"m$1"
    cmp -s m101 "m$1" && pass || fail "batch $1: $(diff m101 "m$1" | head -4)"
    cmp -s c101.npy "c$1.npy" && pass || fail "batch $1: another confusion matrix"
}
for b in 101 16 100 1; do same $b; done
expect 0 "confused i64[7, 7]" "$NETC" eval m.net "${D[@]}" --weights w.safetensors
expect 1 "no output 'logits' over all examples" "$NETC" eval m.net "${D[@]}" -o logits=no.npy
expect 1 "--output needs NAME=FILE" "$NETC" eval m.net "${D[@]}" -o logits

if command -v python3 >/dev/null; then
    expect 0 "" "$NETC" run m.net --input x=x.npy --input label=l.npy --weights w.safetensors --device cpu --json -q
    grep '^{' "$W/.out" >run.json
    expect 0 "" "$NETC" eval m.net "${D[@]}" --weights w.safetensors --json
    grep '^{' "$W/.out" >eval.json
    python3 - <<'PY' && pass || fail "metrics of a plain script differ"
import json, math, struct
run, got = json.load(open("run.json")), json.load(open("eval.json"))
v = run["logits"]["values"]
rows = [v[i:i + 7] for i in range(0, len(v), 7)]
label = list(open("l.npy", "rb").read()[-101:])
n = len(label)
c = [[0] * 7 for _ in range(7)]
for r, l in zip(rows, label): c[l][r.index(max(r))] += 1
of, taken, hit = [sum(r) for r in c], [sum(r[j] for r in c) for j in range(7)], [c[i][i] for i in range(7)]
there = [i for i in range(7) if of[i] + taken[i]]
mean = lambda f: sum(f(i) for i in there) / len(there)
nll = [math.log(sum(math.exp(x) for x in r)) - r[l] for r, l in zip(rows, label)]
p = [float(s) for s in run["p"]["values"]]
bins = [min(int(s * 1000), 999) for s in p]
pairs = [(a > b) + 0.5 * (a == b) for a, x in zip(bins, label) if x == 1 for b, y in zip(bins, label) if y != 1]
exact = [(a > b) + 0.5 * (a == b) for a, x in zip(p, label) if x == 1 for b, y in zip(p, label) if y != 1]
want = {"loss": sum(nll) / n, "ppl": math.exp(sum(nll) / n), "correct": sum(hit) / n,
        "top3": sum(sum(x > r[l] for x in r) < 3 for r, l in zip(rows, label)) / n,
        "macro": mean(lambda i: 2 * hit[i] / max(of[i] + taken[i], 1)), "sure": mean(lambda i: hit[i] / max(taken[i], 1)),
        "found": mean(lambda i: hit[i] / max(of[i], 1)), "area": sum(pairs) / len(pairs),
        "deviation": math.sqrt(sum((r[0] - l) ** 2 for r, l in zip(rows, label)) / n)}
bad = [(k, w, got[k]) for k, w in want.items() if abs(got[k] - w) > 2e-5 * max(1, abs(w))]
bad += [] if got["confused"] == c else [("confused", c, got["confused"])]
bad += [] if abs(got["area"] - sum(exact) / len(exact)) < 0.02 else ["the area is far from the exact one"]
print(bad)
raise SystemExit(bool(bad))
PY
else
    skip "no python3: metrics are not held to a script's"
fi

# Training leaves them out; each evaluation begins anew, so that the last is what eval says of the checkpoint.
expect 0 "" "$NETC" train m.net "${D[@]}" --eval-data x=x.npy --eval-data label=l.npy --epochs 3 --log t.log --save t.safetensors --save-best macro --patience 9
holds "best eval_macro"
grep -v eval_ t.log | grep -qE 'ppl|macro|area' && fail "training reports what is over all examples" || pass
expect 0 "" "$NETC" eval m.net "${D[@]}" --weights t.safetensors --json
last=$(grep -o '"eval_macro":[^,]*' t.log | tail -1)
[ "\"eval_$(grep -o 'macro":[^,]*' "$W/.out")" = "$last" ] && pass || fail "eval: $(cat "$W/.out"), the log: $last"
sed 's/    minimize loss/    accumulate 2\n    minimize loss/' m.net >micro.net
expect 0 "eval_macro" "$NETC" train micro.net "${D[@]}" -D batch=8 --eval-data x=x.npy --eval-data label=l.npy --epochs 1 --log a.log
grep -v eval_ a.log | grep -qE 'ppl|macro|area' && fail "micro-batches report what is over all examples" || pass
# A batch that is written as a number: what fills none is left out; and what cannot be.
cat >wide.net <<'NET'
dim batch = 4
model m(x: f32[batch, 5]) {
    param w: f32[] = 1
    return loss = w * mean(x), all = tally(x)
}
train m {
    minimize loss
    update turn()
}
fn turn(p, g) { p <- p - g }
NET
expect 0 "'@tally.eval.0' is as large as the batch" "$NETC" eval wide.net --data x=x.npy --device cpu
sed "s/w: f32\[\] = 1/w: f32[] = cast(tally(1.0), f32)/" wide.net >start.net
expect 1 "so an initial value cannot use it" "$NETC" eval start.net --data x=x.npy --device cpu
sed 's/all = tally(x)/all = inside(x)/' wide.net >loop.net
cat >>loop.net <<'NET'
fn inside(x) {
    s = zeros([])
    loop i in 0..2 carry s { s = s + cast(tally(sum(x)), f32) }
    return s
}
NET
expect 1 "it cannot be used inside a loop" "$NETC" eval loop.net --data x=x.npy --device cpu

# Of 16-bit floats: sums over all elements leave the range of f16, means do not.
cat >half.net <<'NET'
use nn
use metrics
use optim
dim batch = 4
model h(x: f16[batch, 1000], label: u8[batch, 300] in 0..3) {
    param w: f32 = 1
    z = broadcast(reshape(x[:, :3] / 100, [batch, 1, 3]), [batch, 300, 3])
    return loss = w * w, level = overall(x), off = rmse(x, -x), ppl = perplexity(z, label)
}
train h {
    minimize loss
    update sgd(lr = 0.1)
}
model data() { return x = cast(uniform([40, 1000], 300, 400), f16), label = cast(uniform([40, 300], 0, 3), u8) }
NET
expect 0 "" "$NETC" run half.net --entry data -o x=hx.npy -o label=hl.npy --device cpu -q
expect 0 "" "$NETC" eval half.net --data x=hx.npy --data label=hl.npy --device cpu -q
awk '$1 == "level" { n += $2 > 349 && $2 < 351 } $1 == "off" { n += $2 > 701 && $2 < 704 } $1 == "ppl" { n += $2 > 2.5 && $2 < 4 } END { exit n != 3 }' "$W/.out" &&
    pass || fail "16-bit floats: $(cat "$W/.out")"
finish
