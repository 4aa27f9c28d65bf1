#!/bin/bash
# What users do with a network, one step after the other, for networks whose state is more than
# weights: train, save, evaluate and run with the weights, put them into model.bin, resume, load them
# in a C program. Every way to the same numbers gives the same bits.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
device=${TRAIN_DEVICE:-cpu}
NETS=$ROOT/tests/workflows
expect 0 "" "$NETC" run "$NETS/points.net" --output x=x.npy --output y=y.npy --output kind=kind.npy

sanitize=
nm "$BUILD/netc" 2>/dev/null | grep -q __asan_init && sanitize=-fsanitize=address,undefined
expect 0 "" ${CC:-cc} -std=gnu17 -Wall -Wextra -Werror $sanitize -I"$ROOT/include" "$NETS/host.c" "$BUILD/libnetc.a" -o host -ldl -lm -lpthread -lz

same() { cmp -s "$1" "$2" && pass || fail "$3: $1 and $2 differ"; } # FILE FILE WHAT
metrics() { sed 's/^{//; s/"\(eval_\)*/"/g; s/,"seconds.*//; s/}$//'; } # of a line of JSON
# training NET ARGS...: for 20 steps of 16 of the points, those steps numbered from 0.
training() {
    local net=$1; shift
    expect 0 "" "$NETC" train "$NETS/$net.net" "${DATA[@]}" --device "$device" -q "$@"
}

# workflow NET ENTRY INPUT...: the model trained on these inputs.
workflow() {
    local net=$1 entry=$2 i; shift 2
    local DATA=() EVAL=() RUN=() FILES=() OUT=(--output loss=loss.npy)
    for i; do DATA+=(--data "$i=$i.npy") EVAL+=(--eval-data "$i=$i.npy") RUN+=(--input "$i=$i.npy") FILES+=("$i=$i.npy"); done
    training "$net" --steps 20 --save "$net.st"
    training "$net" --steps 20 --save "$net.log.st" "${EVAL[@]}" --eval-every 3 --log "$net.log"
    same "$net.st" "$net.log.st" "$net: evaluations change training"
    training "$net" --steps 9 --save "$net.part.st"
    training "$net" --steps 20 --save "$net.on.st" --resume "$net.part.st"
    same "$net.st" "$net.on.st" "$net: resuming"

    local logged evaluated
    logged=$(grep '"eval_' "$net.log" | tail -1 | sed 's/.*"epoch":[^,]*,//' | metrics)
    expect 0 "" "$NETC" eval "$NETS/$net.net" "${DATA[@]}" --device "$device" --weights "$net.st" --json -q
    evaluated=$(grep '^{' "$W/.out" | metrics)
    [ -n "$logged" ] && [ "$logged" = "$evaluated" ] && pass || fail "$net: evaluated in training $logged, with --weights $evaluated"
    expect 0 "" "$NETC" "$NETS/$net.net" --weights "$net.st" -o "$net.bin" --target "${device%%:*}" -q
    expect 0 "" "$NETC" eval "$net.bin" "${DATA[@]}" --device "$device" --json -q
    [ "$evaluated" = "$(grep '^{' "$W/.out" | metrics)" ] && pass || fail "$net: with --weights $evaluated, model.bin $(cat "$W/.out")"

    expect 0 "" "$NETC" run "$NETS/$net.net" --entry "$entry" "${RUN[@]}" --device "$device" --weights "$net.st" "${OUT[@]}" --output p="$net.p.npy" -q
    expect 0 "" "$NETC" run "$net.bin" --entry "$entry" "${RUN[@]}" --device "$device" "${OUT[@]}" --output p="$net.q.npy" -q
    same "$net.p.npy" "$net.q.npy" "$net: run with --weights and model.bin"

    expect 0 "" ./host "$NETS/$net.net" "$net.bin" "$device" "$entry" "$net.st" "$net.part.st" "$net.host.st" "${FILES[@]}"
    [ "$evaluated" = "$(cat "$W/.out")" ] && pass || fail "$net: netc eval $evaluated, the host $(cat "$W/.out")"
    same "$net.st" "$net.host.st" "$net: resumed by the host"
}
workflow batch_norm fit x y
workflow hidden fit x y
workflow dropout_loop fit x y
workflow average fit x y
workflow tied fit kind x
workflow several fit x y
workflow whitened fit x y
workflow rounds fit x y

# What the first batch made of parameters and states holds of that batch; nothing runs before it did.
DATA=(--data x=x.npy --data y=y.npy)
looks() { # NAME LIMIT WEIGHTS...: that output of look, of all examples
    local name=$1 limit=$2; shift 2
    expect 0 "" "$NETC" run "$NETS/whitened.net" --entry look --input x=x.npy -D batch=200 --device "$device" --json -q "$@"
    awk -v n="\"$name\"" -v limit="$limit" 'i = index($0, n) { v = substr($0, i); sub(/.*"values":\[/, "", v); exit !(v + 0 < limit) }' "$W/.out" \
        && pass || fail "whitened.net: $name is not below $limit: $(cat "$W/.out")"
}
training whitened -D batch=200 -D rate=0 --no-shuffle --steps 1 --save white.st
looks white 1e-3 --weights white.st; looks gain 0.2 --weights white.st; looks slow 1e-6 --weights white.st
training whitened -D batch=200 -D rate=0 --no-shuffle --steps 1 --save white.bf16.st --precision bf16
looks white 1e-2 --weights white.bf16.st
sed 's/train fit {/&\n    accumulate 2/' "$NETS/whitened.net" >parts.net
expect 0 "" "$NETC" train parts.net "${DATA[@]}" --device "$device" -q --steps 5 --save parts.st
# Weights that hold some of them: the others are made, those stay.
training whitened -D rate=0 --steps 1 --weights white.st --map 'net.act.gain=none' --allow-missing --save some.st
looks white 1e-3 --weights some.st
waits="'net.w' has no value yet: it is computed from the first batch"
expect 1 "$waits" "$NETC" run "$NETS/whitened.net" --entry look --input x=x.npy -D batch=200 --device "$device"
expect 1 "$waits" "$NETC" eval "$NETS/whitened.net" "${DATA[@]}" --device "$device"
expect 1 "$waits" "$NETC" predict "$NETS/whitened.net" --entry look --data x=x.npy --device "$device" -o white=none.npy
expect 1 "$waits" "$NETC" init "$NETS/whitened.net" -o none.st
expect 0 "" "$NETC" check "$NETS/whitened.net" --device "$device"
expect 0 "" "$NETC" bench "$NETS/whitened.net" -e train --device "$device" --compiles 0 --repeats 1 --steps 1

# States that begin as parameters do so with those that are loaded, the average of the optimizer, too.
cat >plain.net <<'EOF'
use nn
use optim
dim batch = 16
model fit(x: f32[batch, 6], y: f32[batch]) {
    h = tanh(linear(x, 8) as fc1)
    return loss = mse((linear(h, 1) as fc2)[:, 0], y)
}
train fit {
    minimize loss
    update sgd(lr = 0.1)
}
EOF
DATA=(--data x=x.npy --data y=y.npy)
expect 0 "" "$NETC" train plain.net "${DATA[@]}" --device "$device" --steps 20 --save plain.st -q
zero() { grep -qx "$1 f32\[\] 0" "$W/.out" && pass || fail "$1 is not 0: $(cat "$W/.out")"; } # of the last expect
begun() { # WORDS...: after loading, slow and target are the parameters
    expect 0 "" "$NETC" run "$NETS/average.net" --entry average --input x=x.npy --device "$device" "$@" && zero apart
    expect 0 "" "$NETC" run "$NETS/average.net" --entry fit --input x=x.npy --input y=y.npy --device "$device" "$@" && zero far && zero half
}
begun --seed 3 --weights plain.st
begun --seed 3 --weights plain.st --allow-missing
# (only those of one layer)
begun --seed 3 --weights plain.st --map 'fc1.*=none.*' --allow-missing
# A resumed training, of a checkpoint that has no average yet: a step at a rate of 0 moves nothing.
sed 's/lr = 0.05/lr = 0 * step/' "$NETS/average.net" >still.net
sed 's/state slow.*/state unused: f32[] = 0/; s/slow <- .*//; s/model average/model plain_average/; s/\.slow//g' still.net >unaveraged.net
expect 0 "" "$NETC" train unaveraged.net "${DATA[@]}" --device "$device" --steps 2 --seed 5 --save unaveraged.st -q
expect 0 "" "$NETC" train still.net "${DATA[@]}" --device "$device" --steps 3 --seed 6 --resume unaveraged.st --save averaged.st -q
expect 0 "" "$NETC" run "$NETS/average.net" --entry average --input x=x.npy --device "$device" --weights averaged.st --json -q
awk 'match($0, /"apart".*"values":\[[^]]*/) { v = substr($0, RSTART, RLENGTH); sub(/.*\[/, "", v); exit !(v < 1e-12) }' "$W/.out" \
    && pass || fail "the average does not begin at the resumed parameters: $(cat "$W/.out")"

# A state that weights lack is said, as a parameter is; one of another size begins anew, with a note.
expect 1 "running_mean" "$NETC" eval "$NETS/batch_norm.net" "${DATA[@]}" --device "$device" --weights plain.st
finish
