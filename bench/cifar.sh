#!/bin/bash
# CIFAR-10, all of it: ResNet-18 for 30 epochs with augmentation (samples/cifar10/resnet18.net, batch 128, bf16), and
# samples/cifar10/speedrun.net. A line a run: accuracy on the 10,000 test images, seconds of training, seconds from the
# process's start to its end; then means. On an H200 about 30 s a seed of the first, 5 s of the second.
#
#   bench/cifar.sh FOLDER [PART...]    FOLDER: data_batch_1.bin ... and test_batch.bin of the binary version
#
# Parts: resnet18 speedrun torch (default: the first two; torch: the recipe of the first in PyTorch, its step one CUDA graph).
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3), OUT (build/cifar): logs. EPOCHS (30), SEEDS (3) and TORCH_SEEDS (1)
# of ResNet-18, RUNS (20), PRECISION (bf16) and ROUNDS (8 epochs) of the other; OPTIONS: more of netc's, such as "-D width=8".
# A seed begins only when fewer than LIMIT (10000) seconds have gone by.
set -u
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2; }
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} out=${OUT:-build/cifar} folder=$1; shift
mkdir -p "$out"
files=$(printf ',%s' "$folder"/data_batch_[1-5].bin | cut -c2-)
data=(--data "image=$files:images" --data "label=$files:labels")
eval_data=(--eval-data "image=$folder/test_batch.bin:images" --eval-data "label=$folder/test_batch.bin:labels")
[ -e "$folder/data_batch_1.bin" ] && [ -e "$folder/test_batch.bin" ] || { echo "$folder has no data_batch_1.bin, test_batch.bin"; exit 2; }
last() { grep -o "\"$1\": *[0-9.e+-]*" "$2" | tail -1 | sed 's/.*: *//'; }
late() { [ "$SECONDS" -ge "${LIMIT:-10000}" ] && echo "no time left for $1"; }

# A run: NAME SEED COMMAND...; its log in $out/NAME.SEED.jsonl.
run() {
    local name=$1 seed=$2 log=$out/$1.$2.jsonl begin=$EPOCHREALTIME; shift 2
    late "$name, seed $seed" && return
    rm -f "$log"
    "$@" >"$out/$name.$seed.txt" 2>&1 || { echo "$name, seed $seed failed: $(tail -2 "$out/$name.$seed.txt")"; return; }
    awk -v b="$begin" -v e="$EPOCHREALTIME" -v a="$(last eval_accuracy "$log")" \
        -v s="$(grep -v eval_ "$log" | grep -o '"seconds":[0-9.e+-]*' | tail -1 | cut -d: -f2)" -v name="$name" -v seed="$seed" '
        BEGIN { printf "%-10s seed %2d: %6.2f %%, training %7.3f s, process %7.3f s\n", name, seed, a * 100, s, e - b }'
}

resnet18() { # SEED
    # shellcheck disable=SC2086
    "$netc" train samples/cifar10/resnet18.net --precision bf16 "${data[@]}" "${eval_data[@]}" --epochs "${EPOCHS:-30}" --seed "$1" \
        --device "$device" --eval-every 1000000 --report-every 100 --log "$out/resnet18.$1.jsonl" -q ${OPTIONS:-}
}

speedrun() { # SEED
    # shellcheck disable=SC2086
    "$netc" train samples/cifar10/speedrun.net --precision "${PRECISION:-bf16}" "${data[@]}" "${eval_data[@]}" --epochs "${ROUNDS:-8}" \
        --seed "$1" --device "$device" --eval-every 1000000 --report-every 25 --log "$out/speedrun.$1.jsonl" -q ${OPTIONS:-}
}

means() { # NAME: of its lines
    grep "^$1 *seed.*training" | awk -v name="$1" '
        { sub("%,", ""); a[NR] = $4; sum += $4; s += $6; p += $9; if (NR == 1) first = $9 }
        END { if (!NR) exit; m = sum / NR; for (i in a) d += (a[i] - m) ^ 2
              deviation = NR > 1 ? sqrt(d / (NR - 1)) : 0
              printf "%s: %d runs, accuracy %.2f %% (deviation %.2f), training %.3f s, process %.3f s (the first %.3f)\n", name, NR,
                  m, deviation, s / NR, p / NR, first }'
}

for part in ${*:-resnet18 speedrun}; do
    case $part in
        resnet18) n=${SEEDS:-3} ;;
        speedrun) n=${RUNS:-20} ;;
        torch) n=0 ;;
        *) echo "there is no part '$part': resnet18, speedrun, torch"; exit 2 ;;
    esac
    for ((seed = 0; seed < n; seed++)); do run "$part" $seed "$part" $seed; done | tee "$out/$part.table"
    means "$part" <"$out/$part.table"
    [ "$part" = torch ] || continue
    for ((seed = 0; seed < ${TORCH_SEEDS:-1}; seed++)); do
        late "torch, seed $seed" && continue
        "${PEER_PYTHON:-python3}" bench/peers/resnet18_torch.py train "$folder" "${EPOCHS:-30}" $seed 2>"$out/torch.err" || tail -1 "$out/torch.err"
    done
done
