#!/bin/bash
# netc profile and netc bench on the CPU: every number that is promised is there and adds up; traces
# and result files are JSON; two results are compared. No time is asserted.
. "$(dirname "$0")/../lib.sh"
MLP=$ROOT/samples/mnist/mlp.net
digits 600
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte")
have_python() { command -v python3 >/dev/null; }
json() { # FILE EXPRESSION on d: true in Python, or the file is not what it should be
    have_python || { skip "no python3: $1 is not read"; return; }
    python3 -c "
import json, sys
d = json.load(open('$1'))
sys.exit(0 if ($2) else 1)" && pass || fail "$1: not ($2)"
}

# -- profile
P=("$NETC" profile "$MLP" --device cpu --repeats 5 --steps 3)
expect 0 "entry 'train', on cpu" "${P[@]}"
holds "floor"; holds "mlp.net:18"; holds "the sum of its"; holds "cache: as the previous call left it"
expect 0 "" "${P[@]}" --json --trace t.json
cp "$W/.out" p.json
json p.json "abs(sum(s['share'] for s in d['steps']) - 1) < 1e-6 and len(d['steps']) >= 8"
json p.json "d['entry'] == 'train' and d['cache'] == 'warm' and d['repeats'] == 5 and d['steps_in_a_row'] == 3"
json p.json "d['items'] == 128 and d['copy_bytes_per_s'] > 0 and not d['cuda_graph'] and d['way'] == ''"
json p.json "abs(d['sum_seconds'] - sum(s['seconds'] * s['calls'] for s in d['steps'])) < 1e-9"
json p.json "abs(d['floor_seconds'] - sum(s['floor_seconds'] * s['calls'] for s in d['steps'])) < 1e-9 and abs(d['floor_share'] - d['floor_seconds'] / d['seconds']) < 1e-6"
json p.json "all(s['low'] <= s['seconds'] <= s['high'] for s in d['steps'])"
json p.json "any(s['kind'] == 'gemm' and s['tflop_per_s'] > 0 for s in d['steps'])"
json p.json "all(s['registers'] is None and s['occupancy'] is None for s in d['steps'])" # a GPU's
json p.json "all(s['floor_seconds'] > 0 for s in d['steps'] if s['bytes'] > 0)"
json t.json "sum(e['ph'] == 'X' for e in d['traceEvents']) >= 9 and all(e['dur'] >= 0 for e in d['traceEvents'] if e['ph'] == 'X')"
json t.json "all(e['args']['line'] is not None for e in d['traceEvents'] if e.get('tid') == 2 and e['ph'] == 'X')"
expect 0 '"cache":"cold"' "${P[@]}" --cold --json
expect 0 '"entry":"eval"' "${P[@]}" --entry eval --json
expect 0 '"entry":"mlp"' "${P[@]}" --entry mlp --json
expect 0 "" "${P[@]}" "${DATA[@]}" --json
# A check that fails may do so because the data are made up, which the error says; of given data, not.
cat >large.net <<'EOF'
dim batch = 2
model large(x: f32[batch]) {
    assert all(x > 10), "too small"
    return y = x + 1
}
EOF
printf '1\n2\n' >small.csv
for verb in profile bench; do
    expect 1 "(the data are made up, within the ranges that inputs declare" "$NETC" $verb large.net --device cpu
    expect 1 "too small" "$NETC" $verb large.net --device cpu --data x=small.csv
    ! grep -q "made up" "$W/.out" && pass || fail "given data are called made up: $(cat "$W/.out")"
done
# Calls inside a loop are counted, and a bf16 input is given values: zeros would have no deviation.
expect 0 "" "$NETC" profile "$ROOT/samples/lstm/lstm.net" --device cpu --repeats 2 --steps 1 --json
cp "$W/.out" l.json
json l.json "any(s['calls'] > 1 for s in d['steps'])"
printf 'model spread(x: bf16[64, 32]) {\n    v = cast(x, f32)\n    assert sum(v * v) > 1, "only zeros"\n    return y = sum(v)\n}\n' > half.net
expect 0 "entry 'spread'" "$NETC" profile half.net --device cpu --repeats 2
# A compiled file, in place of its source.
expect 0 "" "$NETC" "$MLP" --target cpu -D batch=64 -o a.bin -q
expect 0 "" "$NETC" profile a.bin --device cpu --repeats 2 --steps 1 --json
cp "$W/.out" b.json
json b.json "d['items'] == 64 and d['model'] == 'a.bin'"
expect 0 "a.bin on cpu" "$NETC" bench a.bin --device cpu --repeats 2 --steps 1 --compiles 0 --entry eval
# What cannot be
expect 1 "--steps needs" "${P[@]}" --steps 0
expect 1 "--repeats needs" "${P[@]}" --repeats 0
expect 1 "did you mean 'train'" "${P[@]}" --entry tran
expect 1 "nofile.net" "$NETC" profile nofile.net
expect 1 "cannot write" "${P[@]}" --trace "$W/none/t.json"
expect 1 "no input 'imag'" "${P[@]}" --data imag="$D/train-images-idx3-ubyte"
expect 1 "assertion failed" bash -c "sed 's/> 1,/< 0,/' half.net > never.net; '$NETC' profile never.net --device cpu"
# What begins as the first batch makes it has a value before anything is timed.
cat >first.net <<'N'
use optim
dim batch = 4
model m(x: f32[batch, 3]) {
    param w: f32[3] = rsqrt(mean(x * x, 0) + 1e-3)
    return loss = mean(square(log(w) + x))
}
train m { minimize loss
    update sgd(lr = 0.001) }
N
for verb in profile "bench --compiles 0"; do
    # shellcheck disable=SC2086
    for entry in train eval; do expect 0 "first.net" "$NETC" $verb first.net --device cpu --repeats 2 --steps 1 --entry $entry; done
done
# ... also if that reads an input which a step does not.
sed 's/x: f32\[batch, 3\]/&, start: f32[batch, 3]/; s/mean(x \* x, 0)/mean(start * start, 0)/' first.net >apart.net
expect 0 "" "$NETC" profile apart.net --entry train --device cpu --repeats 1 --steps 1
expect 0 "" "$NETC" bench apart.net --entry eval --compiles 0 --device cpu --repeats 1 --steps 1
expect 0 "" "$NETC" tune apart.net --device cpu --budget 1
[ "$("$NETC" doctor | grep -c '^yes cuda')" = 0 ] && expect 2 "" "${P[@]}" --device cuda:0

# -- bench
# States that count where a cache is filled are put back, and no more is run in a row than it holds.
cat >cache.net <<'N'
const places = 12
model next(x: f32[4]) {
    scratch state kept: f32[places, 4] = 0
    scratch state at: i32[] = 0
    assert at < places, "the context is full"
    kept[at] <- x
    at <- at + 1
    return y = sum(kept, 0), at
}
N
expect 0 "next       step" "$NETC" bench cache.net --device cpu --compiles 0 --repeats 5
expect 0 "next       step" "$NETC" bench cache.net --device cpu --compiles 0 --repeats 5 --steps 11
expect 1 "the context is full" "$NETC" bench cache.net --device cpu --compiles 0 --repeats 5 --steps 40
B=("$NETC" bench "$MLP" --device cpu --repeats 5 --steps 2)
expect 0 "items/s" "${B[@]}" --compiles 1 -o a.jsonl
holds "compile, cold"; holds "compile, warm"; holds "temporaries"
if have_python; then
    python3 - <<'END' && pass || fail "a.jsonl is not what was promised"
import json
rows = [json.loads(l) for l in open("a.jsonl")]
what = {r["what"]: r for r in rows}
for r in rows:
    for key in ("date", "hardware", "driver", "netc", "command", "device", "precision", "value", "unit"):
        assert key in r, (key, r)
step = what["mlp.net train: step"]
assert step["low"] <= step["value"] <= step["high"] and step["deviation"] >= 0 and step["repeats"] == 5
items = what["mlp.net train: items"]
assert abs(items["value"] * step["value"] / 1e6 - 128) < 1e-6
assert what["mlp.net: compile, cold"]["value"] > 0 and what["mlp.net: compile, warm"]["value"] > 0
assert "mlp.net eval: step" in what and "mlp.net init: step" not in what
END
else
    skip "no python3: a.jsonl is not read"
fi
# A cold compilation calls the compiler, a warm one and a session of what is in the cache do not.
printf '#!/bin/sh\necho >>"%s/calls"\nexec cc "$@"\n' "$W" >counting; chmod +x counting
calls() { : >calls; CC=$W/counting expect 0 items/s "${B[@]}" --cache-dir counted --compiles "$1"; wc -l <calls; }
once=$(calls 0) thrice=$(calls 3)
[ "$once" -ge 1 ] && [ "$thrice" = $((3 * once)) ] && pass || fail "calls of the compiler: $once for one compilation, $thrice for three"
expect 0 '"what":"mlp.net batch=64 train: step"' "${B[@]}" --compiles 0 -D batch=64 --entry train --json
grep -q ': compile' "$W/.out" && fail "--compiles 0 compiles" || pass
expect 1 "did you mean 'train'" "${B[@]}" --entry tran
expect 1 "cannot write" "${B[@]}" -o "$W/none/a.jsonl"
expect 1 "--steps needs" "${B[@]}" --steps 0
expect 1 "--compiles needs" "${B[@]}" --compiles -1

# -- compare: outside the spread and not, rates and times, files that have nothing to do with each other
line() { printf '{"what":"%s","value":%s,"unit":"%s"%s}\n' "$1" "$2" "$3" "${4:+,\"low\":$4,\"high\":$5}"; }
{ line slow 10 us 9.9 10.1; line rate 100 GB/s 99 101; line noisy 10 us 8 12; line plain 5 s; line count 10 ""; line gone 1 s; } > one.jsonl
{ line slow 12 us 11.9 12.1; line rate 120 GB/s 119 121; line noisy 11 us 9 13; line plain 5.1 s; line count 9 ""; line new 1 s; } > two.jsonl
expect 3 "5 rows: 1 better, 1 worse, 2 within the spread; 1 only in the first, 1 only in the second" "$NETC" bench --compare one.jsonl two.jsonl
grep -qE '^slow .* 0\.833x  WORSE$' "$W/.out" && pass || fail "slow: $(cat "$W/.out")"
grep -qE '^rate .* 1\.200x  better$' "$W/.out" && pass || fail "rate: $(cat "$W/.out")"
expect 0 "0 worse" "$NETC" bench --compare one.jsonl one.jsonl
printf '\0' >zero.jsonl
expect 1 "zero.jsonl is not text: netc bench -o writes files to compare" "$NETC" bench --compare one.jsonl zero.jsonl
expect 0 "0 worse" "$NETC" bench --compare one.jsonl two.jsonl --least 0.5
expect 3 "" "$NETC" bench --compare one.jsonl two.jsonl --json
cp "$W/.out" c.json
json c.json "d['worse'] == 1 and d['better'] == 1 and len(d['rows']) == 5"
line slow 13 us 12.9 13.1 >> one.jsonl # a later line of a file replaces an earlier one
expect 0 "2 better" "$NETC" bench --compare one.jsonl two.jsonl
expect 0 "within the spread" "$NETC" bench --compare a.jsonl a.jsonl
line other 1 s > other.jsonl
expect 1 "no row in common" "$NETC" bench --compare one.jsonl other.jsonl
expect 1 "cannot read nofile.jsonl" "$NETC" bench --compare one.jsonl nofile.jsonl
printf '{"what":\n' > broken.jsonl
expect 1 "broken.jsonl:1: this is not JSON" "$NETC" bench --compare one.jsonl broken.jsonl
printf '{"a":1}\n' > empty.jsonl
expect 1 'empty.jsonl:1: a result must have "what"' "$NETC" bench --compare one.jsonl empty.jsonl
: > nothing.jsonl
expect 1 "holds no result" "$NETC" bench --compare nothing.jsonl one.jsonl
expect 1 "two files of results" "$NETC" bench one.jsonl two.jsonl
expect 0 "only in the second" "$NETC" bench --compare "$ROOT/bench/results/cpu.jsonl" <(cat "$ROOT/bench/results/cpu.jsonl" other.jsonl)
finish
