#!/bin/bash
# Every optional pass switched off in turn, memory reuse off and matmul libraries off: the samples' training logs, and
# every value that tests/net expects, stay the same. Each pass has some of the samples and of the language tests, others each
# day (SEED); MODES=all: every file.
. "$(dirname "$0")/../lib.sh"

# What rounding may do to any number of a log within STEPS f32 updates: a sum in another order differs by about
# 1e-7 of its terms, and updates carry that on. Reuse of memory changes no arithmetic at all.
TOLERANCE=1e-5
STEPS=50
GAME_STEPS=6 # of two networks against each other: from 3e-7 at step 7 a difference grows to 1.6e-5 at step 13
device=${MODES_DEVICE:-cpu}

# What passes make of a graph is compared, not what the compiler makes of their C (without vectors it takes a third of the
# time; loops that say they are vectors are cli/check.sh's). Kernels that a pass left out does not change are compiled once.
printf '#!/bin/sh\nexec %s/tests/cc_once.sh "$@" -Og -fno-tree-vectorize -fno-openmp-simd\n' "$ROOT" >cc
chmod +x cc
export REAL_CC=${CC:-cc} CC=$PWD/cc KERNELS=$W/kernels

digits 4000
IMAGE=(--data image="$D/train-images-idx3-ubyte") LABEL=(--data label="$D/train-labels-idx1-ubyte")
tr -cd '\12\40-\176' <"$ROOT/docs/language.md" >text.txt
expect 0 "" "$NETC" tokenize text.txt --tokenizer bytes -o text.bin
expect 0 "" "$NETC" run --device cpu "$ROOT/tests/modes/tables.net" -o x=x.npy -o y=y.npy -o points=p.npy -o kind=k.npy

# data_of SAMPLE: sets DATA.
data_of() {
    case $1 in
    mnist/mlp | lstm/lstm) DATA=("${IMAGE[@]}" "${LABEL[@]}") ;;
    autoencoder/* | gan/*) DATA=("${IMAGE[@]}") ;;
    regression/*) DATA=(--data x=x.npy --data y=y.npy) ;;
    scan/*) DATA=(--data x=x.npy --data y=x.npy -D T=8) ;;
    logistic/*) DATA=(--data x=p.npy --data y=k.npy) ;;
    shakespeare/*) DATA=(--data text=text.txt -D layers=2 -D width=32 -D heads=2 -D T=24 -D batch=8) ;;
    gpt2/*) DATA=(--data tokens=text.bin -D layers=2 -D width=32 -D heads=2 -D vocab=256 -D context=24 -D batch=8) ;;
    llama/*) DATA=(--data tokens=text.bin -D layers=2 -D width=32 -D heads=4 -D kv_heads=2 -D hidden=48 -D vocab=256 -D context=24 -D T=24 -D batch=8) ;;
    bert/*) DATA=(--data tokens=text.bin -D layers=2 -D width=32 -D heads=2 -D hidden=64 -D vocab=256 -D context=24 -D T=24 -D batch=8) ;;
    *) return 1 ;;
    esac
}

# train_all MODE FLAG...: MODE.SAMPLE.jsonl and .safetensors of every sample, or of each $EACH-th of them, from the $FROM-th on.
train_all() {
    local mode=$1 f name steps number=0; shift
    for f in "$ROOT"/samples/*/*.net; do
        name=${f#"$ROOT"/samples/} name=${name%.net}
        case $name in mnist/lenet | cifar10/*) continue ;; esac # their layers: tests/net/lang/conv.net
        number=$((number + 1))
        [ $(((number + FROM) % EACH)) -eq 0 ] || continue
        data_of "$name" || { fail "samples/$name.net: say in tests/modes/passes.sh what it trains on"; continue; }
        steps=$STEPS; [ "$name" = gan/gan ] && steps=$GAME_STEPS
        expect 0 "" "$NETC" train "$f" "${DATA[@]}" --device "$device" --steps $steps --report-every 1 -q "$@" \
            --log "$mode.${name##*/}.jsonl" --save "$mode.${name##*/}.safetensors"
    done
}

# same MODE: its logs are those of the default mode.
same() {
    local log name said
    for log in default.*.jsonl; do
        name=${log#default.}
        [ $EACH -gt 1 ] && [ ! -e "$1.$name" ] && continue
        said=$(awk -v tolerance=$TOLERANCE -f "$ROOT/tests/modes/compare.awk" "$log" "$1.$name") && pass ||
            fail "${name%.jsonl} with $1: $said"
    done
}

# net_values MODE FLAG...: the language tests' values and asserts (of the files that $SHARE names).
net_values() {
    local mode=$1 said; shift
    said=$(OPTIONS="$*" NUMBERS_ONLY=1 bash "$ROOT/tests/net/run.sh" 2>&1) && pass || fail "tests/net with $mode: $said"
}

"$NETC" "$ROOT/samples/mnist/mlp.net" --skip-passes '?' >names 2>&1
PASSES=$(sed -n 's/.*passes that can be skipped: //p' names | tr -d ,)
[ -n "$PASSES" ] && pass || fail "no list of optional passes in: $(cat names)"

EACH=1 FROM=0
train_all default
# Every second pass is looked at, others the next day: with an eighth of the samples and a share of the language tests; a third of
# them is run without all passes together.
count=$(wc -w <<<"$PASSES") number=0
for p in $PASSES; do
    [ "${MODES:-}" = all ] || [ $(((SEED + number) % 2)) = 0 ] || { number=$((number + 1)); continue; }
    [ "${MODES:-}" = all ] || { EACH=8 FROM=$(((SEED + number) / 2)); export SHARE=$((FROM % count))/$count; }
    train_all "without-$p" --skip-passes "$p"
    same "without-$p"
    net_values "without-$p" --skip-passes "$p"
    unset SHARE
    EACH=1 number=$((number + 1))
done
[ "${MODES:-}" = all ] || { EACH=3 FROM=$SEED; export SHARE=$((SEED % 3))/3; }
net_values without-all --skip-passes "$(paste -sd, <<<"${PASSES// /$'\n'}")"
train_all no-library --no-library
same no-library
EACH=1
net_values no-library --no-library
train_all no-reuse --no-reuse
same no-reuse
net_values no-reuse --no-reuse
for f in default.*.safetensors; do
    cmp -s "$f" "no-reuse.${f#default.}" && pass || fail "reuse of memory changed bits of $f"
done
finish
