#!/bin/bash
# Large networks written plainly, trained on a GPU: 50 steps of GPT-2 124M (bench/gpt2.net) and of ResNet-18
# (bench/resnet18.net) in bf16 beside the same in f32. A run fails when it ends early, prints a warning or a
# note, when its first loss is further from f32's than 1 %, or the mean of its last ten than 5 %: between
# these two runs part, as any two do that round differently.
#
#   bench/networks.sh NETC TEXT CIFAR [NAME...]   TEXT: any .txt; CIFAR: a data_batch_*.bin; NAME: gpt2 resnet18
#
# Logs go to $OUT (default build/networks). STEPS (50), DEVICE (cuda:0), SIZE: more options, such as
# "-D layers=2". A line a run: name, batch, losses, examples a second, seconds.
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
        NR == 1 { first = $1 } { last = $1 } END { printf("%.0f", (last > first) ? (NR - 1) * b / (last - first) : 0) }'
}

both() { # NAME BATCH DATA...
    local name=$1 batch=$2 verdict losses n begin=$SECONDS; shift 2
    if ! train "$name" "$batch" f32 "$@" || ! train "$name" "$batch" bf16 "$@"; then failed=$((failed + 1)); return; fi
    n=$(losses "$OUT/$name.$batch.bf16.jsonl" | wc -l)
    read -r verdict losses < <(paste <(losses "$OUT/$name.$batch.f32.jsonl") <(losses "$OUT/$name.$batch.bf16.jsonl") | awk -v steps="$steps" '
        NF != 2 || $1 $2 ~ /nan|inf|null/ { bad = 1 }
        NR == 1 { a = $1; b = $2 }
        NR > steps - 10 { f += $1; h += $2 }
        function apart(x, y) { return x > y ? x / y - 1 : y / x - 1 }
        END { print ((bad || NR < steps || apart(a, b) > 0.01 || apart(f, h) > 0.05) ? "FAIL" : "ok"),
                    "first", a, "in f32,", b, "in bf16, mean of the last ten", f / 10 ",", h / 10 }')
    if [ "$verdict" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    echo "$verdict $name batch $batch: $n steps, loss $losses;" \
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
