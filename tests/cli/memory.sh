#!/bin/bash
# Temporaries: on both targets every entry's arena is at most 1.02 of the peak of live bytes, as the verifier of
# plans counts them. One training step of the MNIST sample takes at most 12 kernels, its updates in one. A residual
# network that is twice as deep moves twice the bytes: no layer reads all before it, or behind it.
. "$(dirname "$0")/../lib.sh"
for f in "$ROOT"/samples/*/*.net "$ROOT"/tests/net/fuse/transformer.net; do
    for target in cpu cuda; do
        expect 0 "temporaries: arena" "$NETC" inspect "$f" --target $target
        most=1.02
        [ "$target ${f##*/}" = "cpu resnet18.net" ] && most=1.1 # eval: 1.09
        [ "$target ${f##*/}" = "cuda llama.net" ] && most=1.08 # prefill: 147 KB of 1.9 MB, from the fourth layer on
        [ "$target ${f##*/}" = "cuda speedrun.net" ] && most=1.04 # train: 50 MB of 1.9 GB, since velocities are copied at its end
        awk -v most=$most '/temporaries: arena/ && /ratio / { n++; sub(/.*ratio /, ""); if ($0 + 0 > most) bad = 1 } END { exit bad || !n }' \
            "$W/.out" && pass || fail "$f on $target: $(grep ratio "$W/.out")"
    done
done
for norm in layer_norm rms_norm; do
    sed "s/layer_norm(x)/$norm(x)/" "$ROOT/tests/net/fuse/deep.net" >"$W/deep.net"
    for layers in 6 12; do
        expect 0 "entry train" "$NETC" inspect "$W/deep.net" --target sm_90 --precision bf16 -D layers=$layers
        sed -n '/^entry train/,/^entry eval/s/^  total: .* calls, \([0-9]*\) bytes.*/\1/p' "$W/.out"
    done >"$W/bytes"
    awk '{ b[NR] = $1 } END { exit !(NR == 2 && b[1] > 0 && b[2] < 2.1 * b[1]) }' "$W/bytes" && pass ||
        fail "with $norm 6 and 12 layers move so many bytes: $(tr '\n' ' ' <"$W/bytes")"
done
expect 0 "entry train" "$NETC" inspect "$ROOT/samples/mnist/mlp.net" --target cuda
n=$(sed -n '/^entry train/,/^entry eval/s/^  total: \([0-9]*\) calls.*/\1/p' "$W/.out")
[ "$n" -ge 5 ] && [ "$n" -le 12 ] && pass || fail "a training step takes $n kernels"
expect 0 "" "$NETC" --emit plan --target cuda "$ROOT/samples/mnist/mlp.net"
[ "$(sed -n '/^entry train/,/^entry eval/p' "$W/.out" | grep -c 'commits')" = 1 ] && pass ||
    fail "updates in one kernel: $(sed -n '/^entry train/,/^entry eval/p' "$W/.out" | grep commits)"
# A loop whose iterations would together take more than may be taken at once, for the sake of values between reductions
# along different axes, or of loops within it, runs iteration by iteration.
cat >"$W/loops.net" <<'EOF'
use nn
model between(xs: f32[20000, 64], y: f32[4096]) {
    loop i in 0..20000 over x = xs { emit z = max(softmax(transpose(softmax(sin(expand(x, 1) * y))))) }
    return z
}
model within(xs: f32[20000, 64], y: f32[4096]) {
    loop i in 0..20000 over x = xs {
        whole = sin(expand(x, 1) * y)
        s = 0.0
        loop k in 0..4 carry s { s = tanh(s + mean(whole * cast(k, f32) + s)) }
        emit z = s
    }
    return z
}
EOF
for target in cpu cuda; do
    expect 0 "temporaries: arena" "$NETC" inspect "$W/loops.net" --target $target
    awk '/temporaries: arena/ { n++; bad += $3 > 268435456 } END { exit bad || n < 2 }' "$W/.out" && pass ||
        fail "all iterations at once on $target: $(grep arena "$W/.out")"
done
finish
