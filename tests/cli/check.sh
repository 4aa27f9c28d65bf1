#!/bin/bash
# `netc check` on every sample and on a model of every primitive op; what it must say of checks that decide little, and
# of mistakes in what only it looks at. Of the files a fifth is checked in all builds, others each day (today, tests/lib.sh), and
# of the rest every second one in the fused build; primitives.net in all builds every day.
. "$(dirname "$0")/../lib.sh"
device=${CHECK_DEVICE:-cpu}
# Most of the time here is the compiler's, and 40 % less so. What depends on the text's promises stays: vectors, aliasing. The
# rest is compiled without vectors, in half of the time.
P=$ROOT/tests/net/check/primitives.net
export REAL_CC=${CC:-cc} CC=$ROOT/tests/cc_once.sh KERNELS=$W/kernels CC_FLAGS='-O1 -fno-ivopts -fstrict-aliasing'
one() { # FILE OPTION...: leaves a line in $W/results
    local out
    if ! today && [ "$1" != "$P" ]; then
        [ $(((nth + SEED) % 2)) = 0 ] || return
        local -x NETC_CHECK_FUSED=1 CC_FLAGS='-Og -fno-tree-vectorize -fno-openmp-simd'
    fi
    if ! out=$(timeout "${LIMIT:-1200}" "$NETC" check "$@" --device "$device" 2>&1) ||
        grep -qE 'WRONG|BAD|AddressSanitizer|runtime error:' <<<"$out"; then
        echo "failed: ${1#"$ROOT"/}: $(grep -E 'WRONG|BAD|error|Sanitizer' <<<"$out" | head -4)"
    elif grep -q '^WARNING' <<<"$out" && ! grep -q "^${1#"$ROOT"/}:" "$ROOT/tests/undecided"; then
        echo "failed: ${1#"$ROOT"/}: $(grep '^WARNING' <<<"$out")"
    else
        echo "ok ${1#"$ROOT"/}"
    fi >>"$W/results"
}
for f in "$ROOT"/samples/*/*.net "$ROOT"/tests/net/check/*.net "$ROOT"/tests/net/fuse/*.net; do
    # shellcheck disable=SC2046
    case $f in # the evaluator's time
    */lstm.net) one "$f" -D batch=24 -D hidden=40 ;;
    */gan.net | */autoencoder.net) one "$f" -D batch=24 ;;
    */scan.net) one "$f" -D T=35 -D batch=2 -D width=3 ;;
    */lenet.net) one "$f" -D batch=1 ;;
    */resnet18.net | */speedrun.net) ;; # their layers: tests/net/check/conv.net, augment.net
    */gpt2.net) one "$f" -D layers=2 -D width=16 -D heads=2 -D vocab=41 -D context=12 -D piece=3 -D batch=2 ;;
    */llama.net) one "$f" -D layers=1 -D width=16 -D heads=4 -D kv_heads=2 -D hidden=24 -D vocab=41 -D context=12 -D T=8 -D piece=3 -D batch=2 -D stretch=8 -D trained=128 ;;
    */bert.net) one "$f" -D layers=1 -D width=16 -D heads=2 -D hidden=32 -D vocab=120 -D context=12 -D T=8 -D batch=6 ;;
    */same_bits.net) if [ $((SEED / 2 % 2)) = 0 ]; then one "$f"; else one "$f" -D m=1027 -D k=5 -D n=5; fi ;; # few rows or columns
    */gpt.net) one "$f" -D layers=2 -D width=16 -D heads=2 -D T=9 -D batch=2 ;;
    *) one "$f" $(sed -n 's/^# checked: //p' "$f") ;;
    esac
done
passed=$(grep -c '^ok ' "$W/results"); failed=$(grep -c '^failed' "$W/results"); grep '^failed' "$W/results"

# The caller's options reach every build that is checked: each tells what it needs beyond the limit, the model's
# own first, and without 'fuse' the fused build needs what the model's own does.
needs() { # OPTION...: the bytes that 'm' needs in the model's own build, and fused, unfused, without library
    "$NETC" check needs.net --device "$device" --memory-limit 1000 "$@" 2>&1 |
        sed -n "s/^note: the temporaries of 'm' need \([0-9]*\) bytes, more than the limit of 1000/\1/p" | tr '\n' ' '
}
cat >needs.net <<'N'
use nn
model m(x: f32[64, 30]) {
    param w: f32[30] = 0.5
    y = tanh(softmax(x * w))
    return loss = sum(y * exp(y)), norm = sum(sqrt(y * y + 1), 0) * exp(max(y, 0))
}
N
read -r own fused unfused library <<<"$(needs)"
read -r own_skip fused_skip unfused_skip library_skip <<<"$(needs --skip-passes fuse)"
[ -n "$library" ] && [ "$fused" = "$own" ] && [ "$library" = "$own" ] && [ "$unfused" -gt "$own" ] && pass ||
    fail "of a limit the builds know: $own, $fused, $unfused, $library"
[ -n "$library_skip" ] && [ "$own_skip" -gt "$own" ] && [ "$fused_skip" = "$own_skip" ] && [ "$library_skip" -ge "$own_skip" ] && pass ||
    fail "of a pass left out the builds know: $own_skip, $fused_skip, $unfused_skip, $library_skip; with it $own"

# A pass left out that rounds otherwise is left out of the reference, too.
printf 'use nn\nmodel m(x: f32[2, 6]) { return y = linear(x, 6) as fc }\n' >rounds.net
expect 0 "" "$NETC" check rounds.net --device "$device" --skip-passes contract

# An entry of which rounding leaves little (of uneven data, of others nothing) is told, and is no failure.
cat >little.net <<'END'
model little(x: f32[8, 64]) { return y = sum(x * 1e6, 1) * 1e-6 - sum(x, 1) }
model much(x: f32[64]) { return y = x * 2 }
model many(x: f32[64]) {
    t = sin(x * 1e12)
    return a = t, b = 2 * t, c = 3 * t, d = 4 * t, e = 5 * t, f = 6 * t, g = 7 * t, h = 8 * t
}
END
expect 0 "WARNING: only 37.5 % of the elements of 'little' are decided" "$NETC" check little.net --device "$device"
! grep -q 'precision f32' "$W/.out" && pass || fail "a check in f32 is told to use f32: $(grep WARNING "$W/.out")"
! grep -q "WARNING.*'much'" "$W/.out" && pass || fail "warns of 'much': $(cat "$W/.out")"

# The first of its tensors are named, and counted are the others.
holds "undecided: much of 2 more tensors in many (fused)"
[ "$(grep -c "undecided: .* in many (fused)" "$W/.out")" = 7 ] && pass || fail "of 'many': $(grep many "$W/.out")"

# Another precision is advised where there is a finer one.
echo 'model m(x: f32[4, 64]) { return y = sum(matmul(x, transpose(x)) * 1e6, 1) * 1e-6 - sum(matmul(x, transpose(x)), 1) }' >coarse.net
expect 0 "Check with --precision f32, other sizes" "$NETC" check coarse.net --device "$device" --precision bf16

# Made-up data may be none that the model takes, which is no error inside netc.
cat >taken.net <<'END'
use optim
model taken(x: f32[4], place: i32[4] in 0..4) {
    param w: f32[4] = 1
    return loss = -sum(log(scatter_add(zeros([4]), place, w)) * x)
}
train taken {
    minimize loss
    update sgd(lr = 0.1)
}
model sure(x: f32[4]) {
    assert all(x > 10), "too small"
    return y = x + 1
}
END
expect 1 "taken.net:4: the loss is infinite or NaN" "$NETC" check taken.net --device "$device"
holds "(the data are made up, within the ranges that inputs declare"
sed -i '/^train/,/^}/d' taken.net
expect 1 "too small" "$NETC" check taken.net --device "$device"
holds "(the data are made up, within the ranges that inputs declare"

# Probes that cross a kink decide nothing, which is told and is no failure; what they leave still finds a wrong gradient.
cat >kinks.net <<'END'
use optim
const slope = 1
fn turned(x) { return abs(x) } grad(dy) { return slope * dy * where(x < 0, -1.0, 1.0) }
model kinks(x: f32[64]) {
    param some: f32[64] = cast(iota(64) % 3, f32)
    param all: f32[64] = 0
    return loss = sum(turned(some * x)) + sum(turned(all * x))
}
train kinks {
    minimize loss
    update sgd(lr = 0.1)
}
END
expect 0 "WARNING: 1 gradient could not be compared at all" "$NETC" check kinks.net --device "$device"
holds "WARNING: 1 gradient could be compared only in part"
grep -q '^none all .* 0 of  40 probes' "$W/.out" && grep -q '^part some ' "$W/.out" && ! grep -q BAD "$W/.out" && pass ||
    fail "kinks: $(head -4 "$W/.out")"
expect 1 "BAD  some" "$NETC" check kinks.net --device "$device" -D slope=1.001
holds "something differs"
holds "note: 'turned' (kinks.net:7) has a gradient of its own"

# Of a difference that the model means, the check says where it comes from.
cat >meant.net <<'END'
use optim
fn through(x) { return round(x) } grad(dy) { return dy }
model meant(x: f32[3, 8]) {
    param w: f32[8] = 1
    s = zeros([8])
    loop i in 0..3 carry s over row = x {
        s = s * stop_gradient(w) + row * w
    }
    return loss = sum(s * s) + sum(through(x * w))
}
train meant {
    minimize loss
    update sgd(lr = 0.1)
}
END
expect 1 "BAD  w" "$NETC" check meant.net --device "$device"
holds "note: 'through' (meant.net:9) has a gradient of its own"
holds "note: meant.net:7: in a loop, finite differences follow also what 'stop_gradient' or a state leaves out"

# No op of the table is missing from the model, but the one no .net text leads to, parameters of
# regions (dumps write them in the region's head) and the mark of an error; extern.net is about `extern`,
# fuse/element.net about `own` and `native`, shim/grouped.sh about `repair`, cli/devices.sh about `device` and `exchange`.
"$NETC" --emit ir "$P" > ir.net; "$NETC" --emit grad "$P" > grad.net
for op in $(grep -oE '^(EW|RE|SC|OP)\([a-z_0-9]+' "$ROOT/ir/ops.def" | cut -d'(' -f2); do
    case $op in dynamic_slice|region_param|poison|extern|own|native|repair|device|exchange) continue ;; esac
    grep -qE "(= |^ *)$op\(" ir.net grad.net && pass || fail "primitives.net has no '$op'"
done
# More than fits is refused at once, before the process would be killed.
printf 'dim n = 8\nmodel large(x: f32[n]) { return y = 2 * x }\n' >large.net
expect 0 "" "$NETC" check large.net --device cpu
expect 2 "to check 'large', the reference evaluator needs about" "$NETC" check large.net --device cpu -D n=200000000000
holds "check smaller sizes (-D NAME=VALUE, as of the batch)"
finish
