#!/bin/bash
# The best evaluation and its checkpoint, the end when no better one comes, and both over a resume: a net
# whose loss goes down and up again by a rate that changes its sign.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
cat >v.net <<'NET'
dim batch = 4
model v(x: f32[batch]) {
    param w: f32[] = 8
    return loss = mean(square(w - x)), gain = -mean(square(w - x)), odd = log(w - 100)
}
# w goes down by 1 a step to -1 after step 9, and up again from there: on data of zeros the loss is least after
# step 8, and equal after step 10.
train v {
    minimize loss
    update turn()
}
fn turn(p, g) { p <- p + (if false then g else 0) + where(step <= 8, -1.0, 1.0) }
NET
{ printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }" && head -c 32 /dev/zero; } >zero.npy
T=("$NETC" train v.net --data x=zero.npy --device cpu)
E=(--eval-data x=zero.npy --eval-every 2)
holds_file() { [ "$(tr -d '\0' <"$1" | grep -ao "\"netc.step\":\"$2\"" | head -1)" ] && pass || fail "$1 is not of step $2: $(head -c 400 "$1")"; }

expect 0 "best eval_loss 0 at step 8, in m.best.safetensors" "${T[@]}" "${E[@]}" --steps 20 --save m.safetensors --save-best loss
holds "saved m.best.safetensors at step 6"
holds_file m.safetensors 20
holds_file m.best.safetensors 8
expect 0 "loss 0" "$NETC" eval v.net --data x=zero.npy --weights m.best.safetensors --device cpu
# Larger is better of a gain, and what is said behind ":" counts; a prefix is taken.
expect 0 "best eval_gain 0 at step 8" "${T[@]}" "${E[@]}" --steps 12 --save g.safetensors --save-best eval_gain -q
expect 0 "best eval_loss 36 at step 2" "${T[@]}" "${E[@]}" --steps 12 --save g.safetensors --save-best loss:max -q
expect 0 "no evaluation gave a number for odd" "${T[@]}" "${E[@]}" --steps 12 --save o.safetensors --save-best odd -q
[ ! -e o.best.safetensors ] && pass || fail "a best of no number was kept"
# Parts beside parts.
expect 0 "in p.best.safetensors.index.json" "${T[@]}" "${E[@]}" --steps 12 --save p.safetensors.index.json --save-best loss -q
expect 0 "loss 0" "$NETC" eval v.net --data x=zero.npy --weights p.best.safetensors.index.json --device cpu

# Early: three evaluations behind the best at step 8; the last checkpoint is of the step it ended at.
expect 0 "stopped early: 3 evaluations without a better one; best eval_loss 0 at step 8" "${T[@]}" "${E[@]}" --steps 40 --patience 3 --save e.safetensors --save-best loss
holds "14 steps in"
holds_file e.safetensors 14
# Stopped before and resumed, wherever: the same end, bit for bit, and the same best.
for cut in 5 8 10 12; do
    expect 0 "" "${T[@]}" "${E[@]}" --steps 40 --patience 3 --save r.safetensors --save-best loss -q --steps $cut
    expect 0 "stopped early: 3" "${T[@]}" "${E[@]}" --steps 40 --patience 3 --resume r.safetensors --save r.safetensors --save-best loss -q
    cmp -s e.safetensors r.safetensors && pass || fail "resumed at $cut: another end"
    cmp -s e.best.safetensors r.best.safetensors && pass || fail "resumed at $cut: another best"
done
expect 0 "stopped early: 3" "${T[@]}" "${E[@]}" --steps 40 --patience 3 --resume r.safetensors --save r.safetensors
holds "0 steps in"
expect 0 "starts again" "${T[@]}" "${E[@]}" --steps 20 --resume r.safetensors --save r.safetensors --save-best gain
# Stopped just before the first evaluation: the checkpoint holds none, and that one comes first.
expect 0 "" "${T[@]}" --steps 9 --save r.safetensors -q
expect 0 "best eval_loss 1 at step 9, in r.best.safetensors" "${T[@]}" --eval-data x=zero.npy --eval-every 9 --steps 18 --resume r.safetensors --save r.safetensors --save-best loss
# Stopped just before the last one, after the last step.
expect 0 "" "${T[@]}" --steps 9 --save r.safetensors -q
expect 0 "best eval_loss 1 at step 9, in r.best.safetensors" "${T[@]}" "${E[@]}" --steps 9 --resume r.safetensors --save r.safetensors --save-best loss
holds "0 steps in"
# More patience goes on.
expect 0 "best eval_loss 0 at step 8, in r.best.safetensors" "${T[@]}" "${E[@]}" --steps 30 --patience 20 --resume e.safetensors --save r.safetensors --save-best loss
holds "16 steps in"

# What cannot be.
expect 1 "--save-best needs --save FILE" "${T[@]}" "${E[@]}" --steps 2 --save-best loss
expect 1 "nothing is evaluated; give --eval-data" "${T[@]}" --steps 2 --save x.safetensors --save-best loss
expect 1 "nothing is evaluated; give --eval-data" "${T[@]}" --steps 2 --patience 2
expect 1 "evaluations have no scalar 'los'; did you mean 'loss'?" "${T[@]}" "${E[@]}" --steps 2 --save x.safetensors --save-best los
expect 1 ":min or :max" "${T[@]}" "${E[@]}" --steps 2 --save x.safetensors --save-best loss:least
LC_ALL=C sed 's/"netc.best":"00/"netc.best":"zz/' e.safetensors >d.safetensors
expect 1 "d.safetensors is damaged: its netc.best" "${T[@]}" "${E[@]}" --steps 50 --patience 3 --resume d.safetensors
finish
