#!/bin/bash
# Whatever ends training, what was trained is saved, and nothing else: steps that write values which
# are not finite, evaluations that fail, batches that a state does not fit.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
device=${TRAIN_DEVICE:-cpu}
NETS=$ROOT/tests/workflows
expect 0 "" "$NETC" run "$NETS/points.net" --output x=x.npy --output y=y.npy -q
POINTS=(--data x=x.npy --data y=y.npy)
TRAIN=("$NETC" train --device "$device") QUIET=("${TRAIN[@]}" -q)
same() { cmp -s "$1" "$2" && pass || fail "$3: $1 and $2 differ"; } # FILE FILE WHAT

# A gradient that is not finite under a loss that is: row 29 is 0, in the eighth batch of an epoch.
cat >rows.net <<'EOF'
model rows() {
    i = iota([40, 3], 0)
    return x = where(i == 29, 0.0, 1.0) * normal([40, 3], 1)
}
EOF
expect 0 "" "$NETC" run rows.net --output x=rows.npy -q
cat >root.net <<'EOF'
use nn
use optim
dim batch = 4
model fit(x: f32[batch, 3]) { return loss = mean(sqrt(abs(linear(x, 2, use_bias = false) as fc))) }
train fit {
    minimize loss
    update adam(lr = 0.01)
}
EOF
ROWS=(--data x=rows.npy --no-shuffle)
expect 0 "" "${QUIET[@]}" root.net "${ROWS[@]}" --steps 7 --save seven.st
for steps in 8 9 30; do # at the end, one step before, in the midst
    expect 1 "step 7" "${QUIET[@]}" root.net "${ROWS[@]}" --steps $steps --save root.$steps.st
    same seven.st root.$steps.st "training that meets a bad gradient ends with the step before"
    expect 1 "step 7" "${QUIET[@]}" root.net "${ROWS[@]}" --steps $steps
done
expect 1 "root.net:4" "${QUIET[@]}" root.net "${ROWS[@]}" --steps 30 --save every.st --save-every 1
same seven.st every.st "saving at every step"
expect 1 "step 7" "${QUIET[@]}" root.net "${ROWS[@]}" --steps 30 --resume seven.st --save on.st
same seven.st on.st "resuming before a bad step"

# An update that is not: in the middle of the third epoch, far from the last copy, batches dropped
# or not, accumulated or not.
cat >rate.net <<'EOF'
use nn
use optim
dim batch = 3
model fit(x: f32[batch, 3]) {
    state seen: i64[] = 0
    state lowest: f32[] = inf
    seen <- seen + batch
    loss = mean(square(linear(x, 2, use_bias = false) as fc))
    lowest <- minimum(lowest, loss)
    return loss
}
train fit {
    minimize loss
    update sgd(lr = 0.01 / (33 - step), momentum = 0.9)
}
EOF
sed 's/minimize/accumulate 2\n    minimize/' rate.net >parts.net
for net in rate parts; do
    for last in "" --keep-last; do
        DATA=(--data x=rows.npy $last)
        expect 0 "" "${QUIET[@]}" $net.net "${DATA[@]}" --steps 33 --save whole.st
        for steps in 34 35 5000; do
            expect 1 "step 33" "${QUIET[@]}" $net.net "${DATA[@]}" --steps $steps --save bad.st
            same whole.st bad.st "$net $last: an update that is not finite"
        done
    done
done
# A model's own state of any type, the loss being none the worse; an infinity may be what it means.
for type in f16 bf16 f32 f64; do
    sed "s/state lowest.*/state lowest: f32[] = inf\n    state odd: $type[3] = 1/; s/33 - step/1e3 + step/" rate.net |
        sed 's/lowest <- .*/&\n    odd <- where(step == 11, nan, odd) + where(step == 6, inf, 0)/' >odd.net
    expect 0 "" "${QUIET[@]}" odd.net --data x=rows.npy --steps 11 --save whole.st
    expect 1 "step 11" "${QUIET[@]}" odd.net --data x=rows.npy --steps 500 --save bad.st
    same whole.st bad.st "a state of $type that is not a number"
done
# A last batch of 12 examples is two of 6; one of 4 is no three.
expect 0 "" "${QUIET[@]}" parts.net --data x=rows.npy -D batch=7 --keep-last --steps 6
sed 's/accumulate 2/accumulate 3/' parts.net >thirds.net
expect 1 "cannot be split into 3 micro-batches of the same size" "${QUIET[@]}" thirds.net --data x=rows.npy --keep-last --steps 6

# A state as large as the batch: a smaller one is left out of evaluations, and refused in training.
HIDDEN=$NETS/hidden.net
EVAL=(--eval-data x=x.npy --eval-data y=y.npy)
expect 0 "the last 8 examples are left out: 'hidden' is as large as the batch of 16" "${TRAIN[@]}" "$HIDDEN" "${POINTS[@]}" "${EVAL[@]}" --steps 30 --eval-every 7
[ "$(grep -c 'left out' "$W/.out")" = 1 ] && pass || fail "said more than once: $(cat "$W/.out")"
expect 1 "omit --keep-last" "${QUIET[@]}" "$HIDDEN" "${POINTS[@]}" --steps 4 --keep-last
expect 1 "fewer than the batch of 300" "$NETC" eval "$HIDDEN" "${POINTS[@]}" -D batch=300 --device "$device" -q

# An evaluation that fails: training ends, and what was trained is saved.
cat >strict.net <<'EOF'
use nn
use optim
dim batch = 16
model fit(x: f32[batch, 6], y: f32[batch]) {
    assert training or all(x < 2), "too large to evaluate"
    return loss = mse((linear(x, 1) as fc)[:, 0], y)
}
train fit {
    minimize loss
    update sgd(lr = 0.05)
}
EOF
expect 0 "" "${QUIET[@]}" strict.net "${POINTS[@]}" --steps 5 --save five.st
expect 1 "too large to evaluate" "${QUIET[@]}" strict.net "${POINTS[@]}" "${EVAL[@]}" --steps 30 --eval-every 5 --save strict.st
same five.st strict.st "an evaluation that fails"
# A batch of the evaluation that the model cannot take is found before the first step.
sed 's/assert.*/pairs = reshape(x, [batch \/ 16, 16, 6])/' strict.net >pairs.net
expect 1 "pairs.net:5" "${QUIET[@]}" pairs.net "${POINTS[@]}" "${EVAL[@]}" --steps 30 --save pairs.st --log pairs.log
[ ! -s pairs.log ] && pass || fail "it trained before it found that: $(cat pairs.log)"

# A checkpoint says where it stands; what is set wins over what it holds.
damaged() { LC_ALL=C sed "s/$1/$2/" five.st >damaged.st; cmp -s five.st damaged.st && fail "nothing was damaged: $1"; }
for words in '"netc.step":"5"/"netc.step":"x"/count of steps' '"netc.step":"5"/"netc.step":""/count of steps' \
             '"netc.step"/"netc.stop"/so training cannot continue from it' '"netc.seed"/"netc.sead"/so training cannot continue from it' \
             '"netc.seed":"0"/"netc.seed":"o"/which is not a seed'; do
    IFS=/ read -r from to text <<<"$words"
    damaged "$from" "$to"
    case $to in *'""') LC_ALL=C sed -i 's/"netc.step":""/"netc.step":"" /' damaged.st ;; esac
    expect 1 "$text" "${QUIET[@]}" strict.net "${POINTS[@]}" --resume damaged.st --steps 9
done
sed 's/^model/setting rate = 0.05\nmodel/; s/lr = 0.05/lr = rate/; /assert/d' strict.net >rated.net
expect 0 "" "${QUIET[@]}" rated.net "${POINTS[@]}" --steps 5 --save slow.st
for way in "--set" "-D"; do
    expect 0 "" "${QUIET[@]}" rated.net "${POINTS[@]}" --resume slow.st $way rate=0 --steps 9 --save still.st
    for f in slow still; do
        expect 0 "" "$NETC" eval rated.net "${POINTS[@]}" --weights $f.st --device "$device" --json -q
        cp "$W/.out" $f.json
    done
    same slow.json still.json "a rate of 0 given by $way trains on"
done

# The terminal goes away, or who reads the output: the step is finished and saved.
ended() { # NAME: of the log of a run in the background
    wait $pid; local code=$?
    [ $code -eq 130 ] && pass || fail "$1: exit $code, wanted 130: $(tail -3 "$1.log")"
    [ -e "$1.st" ] && pass || fail "$1: nothing was saved: $(tail -3 "$1.log")"
}
"${TRAIN[@]}" rate.net --data x=rows.npy -D batch=4 --epochs 3 >/dev/null 2>&1 # (compiled)
sed 's/33 - step/1e9/' rate.net >long.net
"${TRAIN[@]}" long.net --data x=rows.npy --epochs 1e7 --save hup.st >hup.log 2>&1 &
pid=$!; wait_for $pid grep -q 'step ' hup.log; kill -HUP $pid; kill -HUP $pid 2>/dev/null; ended hup
"${TRAIN[@]}" long.net --data x=rows.npy --epochs 1e7 --save pipe.st 2>pipe.log > >(head -25 >/dev/null) &
pid=$!; ended pipe

# What a killed save has left is swept when training begins, what is not its own is not.
touch hup.st.netc-AbC123 hup.st.backup hup.st.netc-backups other.st.netc-AbC123 hup.st.netc-zzzzzz
expect 0 "" flock hup.st.netc-zzzzzz "${QUIET[@]}" rate.net --data x=rows.npy --steps 3 --save hup.st
[ ! -e hup.st.netc-AbC123 ] && pass || fail "left over: $(ls hup.st*)"
for f in hup.st.backup hup.st.netc-backups other.st.netc-AbC123 hup.st.netc-zzzzzz; do
    [ -e $f ] && pass || fail "$f is gone"
done
mkdir parts
for f in hup-00002-of-00007 hup-c-00001-of-00002 hup-a-of-2 other-00002-of-00007; do touch parts/$f.safetensors.netc-AbC123; done
touch parts/hup-00002-of-00007.safetensors.netc parts/hup.safetensors.index.json.netc-AbC123
expect 0 "" "${QUIET[@]}" rate.net --data x=rows.npy --steps 3 --save parts/hup.safetensors.index.json
[ "$(cd parts && echo *netc*)" = "hup-00002-of-00007.safetensors.netc hup-a-of-2.safetensors.netc-AbC123 other-00002-of-00007.safetensors.netc-AbC123" ] && pass ||
    fail "left of parts: $(ls parts)"
finish
