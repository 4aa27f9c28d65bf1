#!/bin/bash
# Large networks written plainly, trained on a GPU: 50 steps of GPT-2 124M (bench/gpt2.net) and of ResNet-18
# (bench/resnet18.net) in bf16 beside the same in f32. A run fails when it ends early, prints a warning or a
# note, or when a loss of it is further from f32's than NOISE (0.03) of it.
#
#   bench/networks.sh NETC TEXT CIFAR [NAME...]   TEXT: any .txt; CIFAR: a data_batch_*.bin; NAME: gpt2 resnet18
#
# Logs go to $OUT (default build/networks). STEPS (50), DEVICE (cuda:0), SIZE: more options, such as
# "-D layers=2". A line a run: name, batch, last losses, the largest difference, examples a second, seconds.
set -u
cd "$(dirname "$0")/.."
netc=$1 text=$2 cifar=$3; shift 3
OUT=${OUT:-build/networks} steps=${STEPS:-50} device=${DEVICE:-cuda:0}
mkdir -p "$OUT"
passed=0 failed=0

train() { # NAME BATCH PRECISION DATA...
    local log=$OUT/$1.$2.$3; local name=$1 batch=$2 precision=$3 code; shift 3
    # shellcheck disable=SC2086
    timeout 400 "$netc" train "bench/$name.net" "$@" -D batch="$batch" ${SIZE:-} --precision "$precision" \
        --device "$device" --steps "$steps" --report-every 1 --log "$log.jsonl" >"$log.txt" 2>&1
    code=$?
    [ $code -eq 0 ] || { echo "FAIL $name batch $batch $precision: exit code $code: $(tail -3 "$log.txt")"; return 1; }
    if grep -E '^(note|warning)' "$log.txt" | grep -vE 'tuned|cache'; then
        echo "FAIL $name batch $batch $precision: printed a note"; return 1
    fi
}

losses() { grep -o '"loss":[^,}]*' "$1" | cut -d: -f2; }

rate() { # LOG BATCH: examples a second after the first step
    grep -o '"seconds":[^,}]*' "$1" | cut -d: -f2 | awk -v b="$2" '
        NR == 1 { first = $1 } { last = $1 } END { printf "%.0f", last > first ? (NR - 1) * b / (last - first) : 0 }'
}

both() { # NAME BATCH DATA...
    local name=$1 batch=$2 worst n begin=$SECONDS; shift 2
    if ! train "$name" "$batch" f32 "$@" || ! train "$name" "$batch" bf16 "$@"; then failed=$((failed + 1)); return; fi
    n=$(losses "$OUT/$name.$batch.bf16.jsonl" | wc -l)
    worst=$(paste <(losses "$OUT/$name.$batch.f32.jsonl") <(losses "$OUT/$name.$batch.bf16.jsonl") | awk '
        NF != 2 || $1 $2 ~ /nan|inf|null/ { bad = 1 }
        { d = ($2 - $1) / $1; if (d < 0) d = -d; if (d > w) w = d }
        END { print bad ? 9 : w }')
    if [ "$n" -ge "$steps" ] && awk "BEGIN { exit !($worst <= ${NOISE:-0.03}) }"; then
        passed=$((passed + 1)); printf 'ok   '
    else
        failed=$((failed + 1)); printf 'FAIL '
    fi
    echo "$name batch $batch: $n steps, loss $(losses "$OUT/$name.$batch.f32.jsonl" | tail -1) in f32," \
        "$(losses "$OUT/$name.$batch.bf16.jsonl" | tail -1) in bf16, furthest apart by $worst;" \
        "$(rate "$OUT/$name.$batch.bf16.jsonl" "$batch") examples/s in bf16; $((SECONDS - begin)) s"
}

for name in ${*:-gpt2 resnet18}; do
    case $name in
        gpt2) for batch in 16 32; do both gpt2 $batch --data "tokens=$text"; done ;;
        resnet18) for batch in 128 512; do both resnet18 $batch --data "image=$cifar:images" --data "label=$cifar:labels"; done ;;
        *) echo "there is no network '$name'"; failed=$((failed + 1)) ;;
    esac
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
