#!/bin/bash
# netc inspect without a GPU: what is shown for which target, order, registers from cubins, two builds
# compared, causes with their words; netc run --json.
. "$(dirname "$0")/../lib.sh"
MLP=$ROOT/samples/mnist/mlp.net
I=("$NETC" inspect "$MLP")
json() { # FILE EXPRESSION on d
    command -v python3 >/dev/null || { skip "no python3: $1 is not read"; return; }
    python3 -c "
import json, sys
d = json.load(open('$1'))
sys.exit(0 if ($2) else 1)" && pass || fail "$1: not ($2)"
}
kept() { cp "$W/.out" "$1"; }

# -- which target
if "$NETC" doctor | grep -q '^yes cuda'; then expect 0 "mlp for sm_90 (this machine has a GPU" "${I[@]}"
else expect 0 "mlp for cpu (this machine has no GPU; --target cuda shows a GPU's)" "${I[@]}"; fi
expect 0 "mlp for cpu: " "${I[@]}" --target cpu
expect 0 "mlp for sm_90: " "${I[@]}" --target cuda
expect 0 "mlp for sm_100: " "${I[@]}" --target sm_100
expect 1 "sm_80 or later" "${I[@]}" --target sm_70
expect 1 "unknown target 'gpu'" "${I[@]}" --target gpu
expect 1 "nofile.net" "$NETC" inspect nofile.net

# -- by cost, and in order
expect 0 "" "${I[@]}" --target cuda --json; kept cost.json
expect 0 "" "${I[@]}" --target cuda --json --order; kept order.json
for f in cost order; do json $f.json "d['target'] == 'sm_90' and {e['name'] for e in d['entries']} == {'init', 'train', 'eval', 'mlp'}"; done
json cost.json "all(a['floor_seconds'] * a['calls'] >= b['floor_seconds'] * b['calls'] for e in d['entries'] for a, b in zip(e['steps'], e['steps'][1:]))"
json order.json "d['entries'] != json.load(open('cost.json'))['entries']"
json order.json "sorted(s['name'] for e in d['entries'] for s in e['steps']) == sorted(s['name'] for e in json.load(open('cost.json'))['entries'] for s in e['steps'])"
json cost.json "all(e['bytes'] == sum(s['bytes'] * s['calls'] for s in e['steps']) for e in d['entries'])"
expect 0 "" "$NETC" inspect "$ROOT/samples/lstm/lstm.net" --target cuda --json; kept lstm.json
json lstm.json "any(s['calls'] > 1 for e in d['entries'] for s in e['steps'])"
json lstm.json "all(s['floor_seconds'] > 0 for e in d['entries'] for s in e['steps'] if s['kind'] == 'gemm')"
# A generated product is held to the rate of a product of its types, like the library's call.
echo 'model big(a: bf16[2048, 4096], b: bf16[4096, 2048], c: f32[2048, 4096], d: f32[4096, 2048]) { return y = matmul(a, b), s = exp(matmul(c, d)) }' >big.net
for how in "" --no-library; do
    expect 0 "" "$NETC" inspect big.net --target sm_90 --json $how; cp "$W/.out" "big$how.json"
done
"$NETC" --emit cuda big.net --no-library | grep -q '^// reads .*, 34.4 GFLOP, floor 43.49 us' && pass || fail "no such floor in the head of y's kernel"
# Cross entropy of bf16 logits with its gradient: the maximum and the sum under it in one round over the row, in the short
# form of exp.
"$NETC" --emit cuda "$ROOT/bench/kernels/loss.net" --arch sm_90 --tune-file '' >loss.cu
grep -q '_acc \*= nc_exp_16(max_.*_now);' loss.cu && ! grep -q ' nc_exp(' loss.cu && pass || fail "bf16 logits are read in three rounds, or by the long form of exp"
json big--no-library.json "[s['kind'] for s in d['entries'][-1]['steps']].count('gemm') == 0"
json big--no-library.json "(lambda f: len(f) == 2 and abs(f[0] / f[1] - 790 / 67) < 0.1 and abs(f[1] - 2 * 2048 * 2048 * 4096 / 790e12) < 1e-7)([s['floor_seconds'] for s in d['entries'][-1]['steps'] if s['flops'] > 1e9])"

# -- what an update reads is fetched before the sum that its gradient is
"$NETC" --emit cuda "$MLP" --tune-file '' >"$W/mlp.cu"
awk '/fc1_bias_m_vec = nc_load/ { early = 1 } /nc_above</ { ok = ok || early } END { exit !ok }' "$W/mlp.cu" && pass ||
    fail "the moments of a bias are fetched behind its gradient's sum"

# -- and kernels declare nothing that they do not read: no constant, no parameter that places a body
unread() { # FILE: the names that a function of its kernels declares and never reads
    awk '/^\/\/ [a-z0-9_]*_[0-9a-f]+$/ { kernels = 1 }
        kernels && /^}/ { for (m in made) print m; split("", made) }
        kernels && / int (n|block)[,)]/ { if (/ int n[,)]/) made["n"] = 1; if (/ int block[,)]/) made["block"] = 1; all++; next }
        kernels && /^ +const [a-z0-9_]+ [a-z0-9_]+( =|$)/ { name = $3; sub(/const [a-z0-9_]+ [a-z0-9_]+/, ""); all++ } { left = name == "" ? "" : name; name = "" }
        { for (m in made) if ($0 ~ "(^|[^a-zA-Z0-9_])" m "([^a-zA-Z0-9_]|$)") delete made[m]; if (left != "") made[left] = 1 }
        END { if (all < 100) print "only " all + 0 " names" }' "$1"
}
for f in "$MLP" "$ROOT/samples/mnist/lenet.net" "$ROOT/samples/cifar10/resnet18.net" "$ROOT/samples/shakespeare/gpt.net"; do
    "$NETC" --emit cuda "$f" --tune-file '' --arch 90 >read.cu
    [ -z "$(unread read.cu)" ] && pass || fail "$f: kernels do not read $(unread read.cu | sort | uniq -c | sort -rn | head -3)"
done

# -- they read as if a person had written them: no loop of one iteration, no operation that does nothing, no long
# line, no function of the prelude that no kernel uses
if grep -nE '< 1; [a-z]+\+\+|[/%*] 1[^0-9.]|[(]int[)]block|[+] 0[^.x0-9]|[+] [(][a-z0-9_]+[)][;,)]' read.cu | grep -v '^[0-9]*:.*//' >odd; then fail "$(head -3 odd)"; else pass; fi
awk '/^\/\/ [a-z0-9_]*_[0-9a-f]+$/ { kernels = 1 } kernels && length > 100 && !/^ *\/\// && !/__launch_bounds__/' read.cu >long
[ -s long ] && fail "$(head -3 long)" || pass
grep -q nc_team read.cu && ! grep -q nc_sort read.cu && pass || fail "the prelude is not that of the kernels"
# a value that has the name of a loop's counter is called otherwise
printf '%s\n' 'model t(x: f32[16, 64], w: f32[64, 16]) {' '    o = x * 2' '    return y = matmul(o, w)' '}' >counter.net
"$NETC" --emit cuda counter.net --no-library --arch 90 >counter.cu
grep -q 'const float o_ = ' counter.cu && pass || fail "$(grep -w o counter.cu)"
# a program that consists of library calls
echo 'model t(x: bf16[16, 64], w: bf16[64, 16]) { return y = matmul(x, w) }' >library.net
expect 0 "no generated kernels" "$NETC" --emit cuda library.net --arch 90

# -- one entry: nothing of the others is shown, and their mistakes are notes
expect 0 "entry eval  batch = 128" "${I[@]}" --target cuda -e eval
[ "$(grep -c '^entry ' "$W/.out")" = 1 ] && pass || fail "more than 'eval': $(grep '^entry ' "$W/.out")"
expect 0 "" "${I[@]}" --target cuda --json -e eval; kept eval.json
json eval.json "d['entries'] == [e for e in json.load(open('cost.json'))['entries'] if e['name'] == 'eval']"
n=$(python3 -c "import json; print(len({s['name'] for s in json.load(open('eval.json'))['entries'][0]['steps'] if s['kind'] == 'kernel'}))")
expect 0 "mlp for sm_90: $n kernels, " "${I[@]}" --target sm_90 -e eval
expect 0 "" "${I[@]}" --target sm_90 --no-library --why -e eval
grep -q '^entry eval: what computes it' "$W/.out" && ! grep '^entry ' "$W/.out" | grep -qv '^entry eval' && pass || fail "--why: $(cat "$W/.out")"
expect 0 "" "${I[@]}" --target sm_90 --knobs
kernels() { sed -n 's/^kernel \([^ /]*\).*/\1/p' "$W/.out" | sort -u | wc -l; }
all=$(kernels)
expect 0 "kernel " "${I[@]}" --target sm_90 --knobs -e eval
[ "$(kernels)" = "$n" ] && [ "$n" -lt "$all" ] && pass || fail "--knobs: of $n kernels of $all: $(cat "$W/.out")"
expect 0 "" "$NETC" "$MLP" -o whole.bin --arch sm_90 --target cuda -q
expect 0 "(all that the file holds): $n kernels" "$NETC" inspect whole.bin --cards -e eval
[ "$(grep -c ' [a-z0-9_]*_[0-9a-f]\{8\}$' "$W/.out")" = "$n" ] && pass || fail "--cards: $(cat "$W/.out")"
expect 1 "did you mean 'eval'?" "${I[@]}" -e evl
expect 0 "fc1" "${I[@]}" -e mlp --model
expect 0 "entry mlp: calls" "$NETC" inspect "$MLP" "$MLP" -e mlp
! grep -q 'entry train' "$W/.out" && pass || fail "compares others: $(grep '^entry' "$W/.out")"
printf 'use nn\nmodel fine(x: f32[4, 3]) { return y = linear(x, 5) as a }\nmodel bad(x: f32[4, 3]) { return y = (linear(x, 5) as b) + ones([7]) }\n' >two.net
expect 0 "note: 'bad' is not run here" "$NETC" inspect two.net -e fine
expect 0 "a.weight" "$NETC" inspect two.net -e fine --params
! grep -q 'b.weight' "$W/.out" && pass || fail "parameters of another entry: $(cat "$W/.out")"

# -- part of a kernel's name, and none
expect 1 "did you mean loss_mean_v_max_exp_sum_" "$NETC" inspect "$MLP" loss_mean_v --target cuda
expect 1 "--target cuda lists them" "$NETC" inspect "$MLP" nothing --target cuda
expect 1 "did you mean loss_mean_v_max_exp_sum_" "$NETC" inspect "$MLP" --eject loss_mean_v
expect 1 "did you mean loss_mean_v_max_exp_sum_" "$NETC" inspect "$MLP" --knobs loss_mean_v --target cuda

# -- types: what runs in what
expect 0 "" "${I[@]}" --target cuda --precision bf16 --json; kept bf16.json
json bf16.json "any(s['types'].endswith('bf16 bf16 -> f32') for e in d['entries'] for s in e['steps'] if s['kind'] == 'gemm')"
json bf16.json "any(s['types'] == 'u8 f32 -> bf16' for e in d['entries'] for s in e['steps'])"
printf 'model m(x: f32[64, 1000000], y: bf16[4096, 4096]) {\n    return s = sum(x, 1), a = argmax(x, 1), t = sum(cast(y, f32), 0)\n}\n' > parts.net
expect 0 "" "$NETC" inspect parts.net --target cuda --json; cp "$W/.out" parts.json # sums in parts: scratch has a type
json parts.json "sorted(s['types'] for s in d['entries'][1]['steps'] if 'joined' not in s['name']) == ['bf16 -> f32', 'f32 -> f32 i32']"
expect 0 "" "${I[@]}" --target cuda --precision f16 --json; kept f16.json
json f16.json "[s['types'].split(' ', 1)[1] for e in d['entries'] if e['name'] == 'train' for s in e['steps'] if s['kind'] == 'gemm'].count('f16 f16 -> f32') == 2" # weight gradients
json f16.json "all(' f16 f16 -> ' in s['types'] for e in d['entries'] for s in e['steps'] if s['kind'] == 'gemm')"
expect 0 "512x2048x784 f32 f32 -> f32, tf32" "$NETC" inspect "$ROOT/bench/mlp.net" --target cuda --precision tf32 -D first=2048 -D batch=512

# -- registers: of a compiled file they are there, of a source they are asked for
if "$NETC" doctor | grep -q '^yes NVRTC'; then
    expect 0 "" "${I[@]}" --target sm_80 --cards --json; kept r.json
    json r.json "all(s['registers'] > 3 and 0 < s['occupancy'] <= 1 for e in d['entries'] for s in e['steps'] if s['kind'] == 'kernel')"
    json r.json "len(d['cards']) > 5 and all(c['registers'] > 3 and c['lines'] > 10 and c['static_shared_bytes'] >= 0 and c['compile_seconds'] > 0 and c['remarks'] == [] for c in d['cards'])"
    json cost.json "all(s['registers'] is None for e in d['entries'] for s in e['steps']) and 'cards' not in d"
    expect 0 "kernel, the compiler's remarks" "${I[@]}" --target sm_80 --cards
    name=$(awk '/^ +[0-9]/ { print $9; exit }' "$W/.out")
    expect 0 " $name" "${I[@]}" "$name" --target sm_80 --cards
    [ "$(wc -l < "$W/.out")" = 3 ] && pass || fail "the card of one kernel: $(head -9 "$W/.out")"
    expect 1 "no kernel 'nothing'" "${I[@]}" nothing --target sm_80 --cards
    expect 1 "cards describe GPU kernels" "${I[@]}" --target cpu --cards
    expect 0 "" "$NETC" "$MLP" --target cuda --arch sm_90 -o a.bin -q
    expect 0 "(all that the file holds)" "$NETC" inspect a.bin
    expect 0 "" "$NETC" inspect a.bin --json; kept b.json
    json b.json "all(s['registers'] > 3 for e in d['entries'] for s in e['steps'] if s['kind'] == 'kernel')"
else
    skip "no NVRTC: registers are not read"
    expect 0 "note: the registers of kernels are not known" "${I[@]}" --target cuda --cards
    expect 0 " - " "${I[@]}" --target cuda --cards
fi

# -- two builds
expect 0 "" "$NETC" "$MLP" --target cpu -o one.bin -q
expect 0 "" "$NETC" "$MLP" --target cpu -D hidden=64 -o two.bin -q
expect 0 "one.bin -> two.bin, for cpu" "$NETC" inspect one.bin two.bin --target cpu
expect 0 "" "$NETC" inspect one.bin two.bin --target cpu --json; kept c.json
json c.json "next(e for e in d['entries'] if e['name'] == 'train')['changed'] >= 3"
json c.json "next(e for e in d['entries'] if e['name'] == 'train')['second']['arena_bytes'] < next(e for e in d['entries'] if e['name'] == 'train')['first']['arena_bytes']"
expect 0 "" "$NETC" inspect one.bin --compare one.bin --target cpu --json; kept s.json
json s.json "all(e['changed'] == e['added'] == e['removed'] == e['rescheduled'] == 0 and e['same'] > 0 for e in d['entries'])"
# Another optimizer: its kernel goes, another comes; the rest is unchanged.
sed 's/update adamw(.*/update sgd(lr = 0.1)/' "$MLP" > sgd.net
expect 0 "" "$NETC" inspect "$MLP" sgd.net --target cuda --json; kept o.json
json o.json "(lambda e: e['removed'] + e['changed'] >= 1 and e['first']['bytes'] > e['second']['bytes'])(next(e for e in d['entries'] if e['name'] == 'train'))"
json o.json "(lambda e: e['same'] >= 1 and e['removed'] == e['changed'] == e['added'] == 0)(next(e for e in d['entries'] if e['name'] == 'eval'))"
expect 0 "entry eval" "$NETC" inspect "$MLP" sgd.net --target cuda
expect 1 "different models" "$NETC" inspect "$MLP" "$ROOT/samples/autoencoder/autoencoder.net"
expect 1 "missing.bin" "$NETC" inspect "$MLP" missing.bin
expect 1 "a kernel or another build" "$NETC" inspect one.bin kernel --compare two.bin
expect 1 "show one build" "$NETC" inspect one.bin two.bin --why
expect 1 "give only one of" "$NETC" inspect one.bin --why --knobs
expect 1 "has no JSON form" "$NETC" inspect one.bin --knobs --json
expect 1 "no kernel 'nothing'" "${I[@]}" nothing

# -- why
expect 0 "[matmul]" "${I[@]}" --why
holds "[rows]"; holds "different rows: 128 against"
expect 0 "one tile per warp" "$NETC" inspect "$MLP" --target cuda --why; holds "stages read the row, which"
expect 0 '"cause":"rows","a":128' "${I[@]}" --why --json
kept w.json
json w.json "all(s['cause'] and s['text'] for e in d['entries'] for s in e['stored'])"
expect 0 "[option]" "${I[@]}" --why --skip-passes fuse
cat > attention.net <<'END'
use nn
model m(x: f32[2, 64, 48], w: f32[2, 64, 264]) {
    q, k, v = split(x, 3)
    a = attention(q, k, v)
    b = attention(q[:, 0:16], k, v)
    c = attention(w, w, v)
    p = softmax(matmul(q, transpose(v)))
    return y = mean(a) + mean(b) + mean(c) + mean(matmul(p, k)), p
}
END
expect 0 "no attention kernel: 16 rows and 64 columns, fewer than 32" "$NETC" inspect attention.net --target cuda --precision bf16 --why
holds "no attention kernel: a head dimension of 264, not of 8, 2 of them, ... 256"
holds "no attention kernel: this needs the scores, too"
[ "$(grep -c 'no attention kernel' .out)" = 3 ] && pass || fail "of four softmaxes three are no attention kernels"
expect 1 "one.bin holds no graph, which --why needs; --rebuild compiles its source again" "$NETC" inspect one.bin --why --target cpu
expect 0 "what computes it, and why" "$NETC" inspect one.bin --why --target cpu --rebuild
# Tiles of products on sm_90: the width that leaves the least of the device idle; small ones are left to mma.
printf 'model m(x: bf16[4096, 512], v: bf16[768, 512], w: bf16[1024, 512], s: bf16[64, 512]) {\n    return a = matmul(x, transpose(v)), b = matmul(x, transpose(w)), c = matmul(s, transpose(w))\n}\n' > p.net
expect 0 "tiles of 128 x 192: 83 % of what 132" "$NETC" inspect p.net --target sm_90 --no-library --why; holds "tiles of 128 x 128: 78 %"
expect 0 "" "$NETC" inspect p.net --target sm_90 --no-library --knobs
for t in 'a_.* wgmma=own tile_n=192' 'b_.* wgmma=own tile_n=128' 'c_.* wgmma=no'; do
    grep -q "^kernel $t" "$W/.out" && pass || fail "no $t: $(cat "$W/.out")"
done
# Shuffled pixels and their gradient are stored as images, so that groups of four warps multiply both convolutions and their gradients.
cat >shuffled.net <<'END'
use conv
use nn
use optim
model m(x: f32[16, 48, 48, 256], y: f32[16, 96, 96, 256]) {
    x = pixel_shuffle(conv2d(x, 1024, 3) as up, 2)
    return loss = l1(conv2d(x, 256, 3) as out, y)
}
train m {
    minimize loss
    update sgd(lr = 0.1)
}
END
expect 0 "" "$NETC" inspect shuffled.net -e train --precision bf16 --target sm_90 --why
[ "$(grep -c 'tile wgmma=own' .out)" -ge 4 ] && ! grep -q ': tile each' .out && pass || fail "shuffled pixels are loaded one by one: $(grep ': tile' .out)"
# Weights that stay in shared memory are copied at column 0, of which no quotient has a name of its own.
cat >stays.net <<'END'
use conv
model m(x: bf16[16, 4096, 64], w: bf16[32, 4, 64]) { return y = convolve_transpose(x, w, 2, 1) }
END
expect 0 "stays" "$NETC" --emit cuda stays.net --target cuda --arch sm_90
grep -nE 'const int [0-9]' .out && fail "a name begins with a digit" || pass
# A vector for each matrix of a batch, and the gradient of such a product, which sums over nothing: no calls of the library, no
# copies of the matrices. And the check of the loss runs before the updates, so that these are stored where they stay.
expect 0 "" "$NETC" inspect "$ROOT/bench/workloads/capsule.net" -e train --precision bf16 --target sm_90
! grep -qE 'x1152x1 |1x16x1152|permute_|commit_' .out && pass || fail "$(grep -E 'x1152x1 |1x16x1152|permute_|commit_' .out)"
# The head comment of a kernel names each line of the source once.
for f in "$ROOT"/samples/*/*.net; do
    "$NETC" --emit cuda "$f" | awk -v f="$f" '/^\/\/ [^ ]*:[0-9]+ / { if (seen[$2]++) { print f ": " $0; bad = 1 } next } !/^\/\// { delete seen } END { exit bad }' && pass || fail "a line is listed twice"
done

# -- layers, counted by hand
cat >layers.net <<'N'
use nn
use transformer
dim batch = 2
const depth = 3
model small(text: i32[batch, 8] in 0..10) {
    x = embedding(text, 10, 6) as table
    for i in 0..depth { x = x + (mlp(x, 12, act = relu) as h[i]) }
    for i in 0..2 { x = linear(x, 4 + i, use_bias = false) as last[i] }
    param shift: f32[5] = 0 frozen
    return logits = x + shift
}
model runs(x: f32[batch, 5, 3]) {
    s = zeros([batch, 4])
    loop t in 0..5 carry s over a = transpose(x, [1, 0, 2]) { s = tanh(s + (linear(a, 4) as cell)) }
    return s
}
N
cat >layers.txt <<'T'
layers, entry small: batch = 2
layer   times  output         parameters    flops  activations
table          f32[2, 8, 6]           60        0        384 B
h.0..2      3  f32[2, 8, 6]          162   5.09 k     1.88 KiB
  up           f32[2, 8, 12]          84   2.50 k        768 B
  down         f32[2, 8, 6]           78   2.40 k        384 B
last.0         f32[2, 8, 4]           24      768        256 B
last.1         f32[2, 8, 5]           20      640        320 B
in all                               595  17.04 k     7.69 KiB
2.32 KiB of parameters, 5 of them frozen; 8.52 k flops an example
T
expect 0 "" "$NETC" inspect layers.net small --model
diff layers.txt .out >diff.txt && pass || fail "$(cat diff.txt)"
expect 0 "h.0..4      5" "$NETC" inspect layers.net small --model -D depth=5
# Rounds of a loop count: 5 times 2 x 3 x 4 products, their sums with a bias and the state, tanh.
expect 0 "" "$NETC" inspect layers.net runs --model --json; kept layers.json
json layers.json "d['flops'] == 5 * (2 * 2 * 3 * 4 + 3 * 8) and d['layers'][0]['name'] == 'cell' and d['layers'][0]['flops'] == 5 * (48 + 8) and d['layers'][0]['parameters'] == 16"
expect 0 "in all" "$NETC" inspect "$MLP" --model; holds "mlp, entry eval: batch = 128"
# `evaluate with` reads states in place of the parameters: the layers are those of the model.
cat >averaged.net <<'N'
use nn
use optim
model averaged(x: f32[2, 3]) {
    h = tanh(linear(x, 4) as first)
    return loss = mean(linear(h, 1) as last)
}
train averaged {
    minimize loss
    update sgd(lr = 0.1)
    update ema(decay = 0.5)
    evaluate with ema
}
N
expect 0 "21 " "$NETC" inspect averaged.net --model; holds "averaged, entry averaged"; holds "first "; holds "84 B of parameters"
expect 0 "21 " "$NETC" inspect averaged.net -e eval --model
expect 0 "h.0..11        12" "$NETC" inspect "$ROOT/samples/gpt2/gpt2.net" --model; holds "124,439,808"
expect 1 "trains none of its models; name one after it: small, runs" "$NETC" inspect layers.net --model
expect 1 "did you mean 'small'?" "$NETC" inspect layers.net smal --model
expect 1 "give only one of" "$NETC" inspect layers.net small --model --why

# -- netc run --json
printf 'model m(x: f32[2, 3]) {\n    return y = x * 2, k = argmax(x), big = sum(x) > 20, h = cast(x, bf16), n = log(sum(x) - 22)\n}\n' > m.net
{ printf '\x93NUMPY\x01\x00\x76\x00'; printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
  printf '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40'; } > x.npy
expect 0 '"y":{"type":"f32","shape":[2,3],"values":[2,4,6,8,10,12]}' "$NETC" run m.net --input x=x.npy --device cpu --json
kept run.json
json run.json "d['k']['values'] == [2, 2] and d['big'] == {'type': 'bool', 'shape': [], 'values': [True]}"
json run.json "d['h']['values'] == [1, 2, 3, 4, 5, 6] and d['n']['values'] == ['nan']"
expect 0 "" "$NETC" run m.net --input x=x.npy --output y=y.npy --device cpu --json
[ -s y.npy ] && holds '"y":' || fail "--json with --output writes no file"
expect 0 "h bf16[2, 3] 1 2 3" "$NETC" run m.net --input x=x.npy --device cpu
# The same text wherever memory lies: a memo keyed by a hash of addresses took one value for another, now and then.
for ((i = 0; i < 12; i++)); do "$NETC" --emit cuda "$ROOT/samples/shakespeare/gpt.net" 2>/dev/null | cksum; done | sort -u >texts
[ "$(wc -l <texts)" = 1 ] && ! grep -q ' 0$' texts && pass || fail "twelve compilations made different texts: $(cat texts)"
finish
