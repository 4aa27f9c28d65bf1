#!/bin/bash
# What a CUDA GPU can measure, beside PyTorch and JAX in the same run. About five minutes on an H200.
#
#   bench/gpu.sh [BUILD] [PART...]    parts: train accuracy compile memory curve kernels (default: all)
#
# Results: JSON lines gpu_DATE.jsonl and a table of them, gpu_DATE.md, in bench/results/, or, when it is
# given, in $OUT; logs in $OUT (default BUILD/bench). MNIST_DIR: folder of the MNIST files. PEER_PYTHON: a Python with torch and jax
# (default python3); peers that are not installed are left out. QUICK=1: without the peers' slow modes,
# and fewer of their runs.
set -u
cd "$(dirname "$0")/.."
. bench/lib.sh
build=${1:-build}
[ $# -gt 0 ] && shift
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(train accuracy compile memory curve kernels)
netc=$build/netc
[ -x "$netc" ] || { echo "$netc is not there: run make first" >&2; exit 1; }
keep=${OUT:-$build/bench}
mkdir -p "$keep"
keep=$(cd "$keep" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
results=$keep/gpu_$(date -u +%Y%m%d_%H%M%S).jsonl
export XDG_CACHE_HOME=$out/cache CUDA_CACHE_PATH=$out/cuda TORCHINDUCTOR_CACHE_DIR=$out/inductor
export XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONDONTWRITEBYTECODE=1
hardware=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)
[ -n "$hardware" ] || { echo "nvidia-smi finds no GPU" >&2; exit 1; }
py=${PEER_PYTHON:-python3}
mnist=${MNIST_DIR:-.carry/mnist}
[ -e "$mnist/train-images-idx3-ubyte.gz" ] || mnist=../shared/data/mnist
data=(--data "image=$mnist/train-images-idx3-ubyte.gz" --data "label=$mnist/train-labels-idx1-ubyte.gz")
test_data=(--eval-data "image=$mnist/t10k-images-idx3-ubyte.gz"
           --eval-data "label=$mnist/t10k-labels-idx1-ubyte.gz")

peer_run() { # torch|jax MODE FILE [OPTION...]
    local which=$1 mode=$2 file=$3; shift 3
    timeout 100 "$py" bench/peers/mnist_"$which".py --data "$mnist" --device cuda --mode "$mode" "$@" \
        --started "$EPOCHREALTIME" >"$file" 2>"$out/peer_err.txt" && return 0
    echo "peer $which $mode left out: $(tail -1 "$out/peer_err.txt")"
    return 1
}
version() { grep -o '"version": "[^"]*"' "$1" | tail -1 | cut -d'"' -f4; }
micro() { awk -v s="$2" '{ printf "%.4f\n", $1 / s * 1e6 }' <"$1" | median; } # file of epochs' seconds, steps

# Seconds an epoch and microseconds a step. PEERS: words like jax:scan. $rounds: how often they take turns.
train() { # NAME MODEL STEPS PRECISION "PEERS" "PEER OPTIONS" [OPTION...]
    local name=$1 model=$2 steps=$3 precision=$4 peers=$5 options=$6 round p f; shift 6
    local tf32=""; [ "$precision" = tf32 ] && tf32=--tf32
    : >"$out/ours"
    for p in $peers; do : >"$out/${p/:/_}.s"; done
    for ((round = 1; round <= rounds; round++)); do
        "$netc" train "$model" "${data[@]}" "$@" --precision "$precision" --device cuda:0 --epochs 6 \
            --report-every "$steps" -q --log "$out/log.jsonl" >/dev/null || return 1
        epoch_seconds "$out/log.jsonl" >>"$out/ours"
        for p in $peers; do
            [ "$round" -gt 1 ] && case $p in torch:eager|torch:compile|jax:step) continue ;; esac
            f=$out/${p/:/_}
            # shellcheck disable=SC2086
            peer_run "${p%:*}" "${p#*:}" "$f.json" $options $tf32 || continue
            peer_epoch_seconds "$f.json" >>"$f.s"
            [ -e "$f.first" ] || cp "$f.json" "$f.first" # of mlp.net, compiled with empty caches
        done
    done
    record "step of $name, $precision" "$(micro "$out/ours" "$steps")" us "netc train $model $* --precision $precision"
    for p in $peers; do
        f=$out/${p/:/_}
        [ -s "$f.s" ] && record "step of $name, $precision" "$(micro "$out/ours" "$steps")" us \
            "netc train $model $* --precision $precision" "${p/:/ }" "$(version "$f.json")" "$(micro "$f.s" "$steps")"
    done
    record "epoch of $name, $precision" "$(median <"$out/ours")" s "netc train $model $* --precision $precision"
}

part_train() {
    local rounds=2 graph="torch:graph" slow="jax:step torch:eager torch:compile"
    [ -n "${QUICK:-}" ] && rounds=1 graph="" slow=""
    train "784-128-10, batch 128" samples/mnist/mlp.net 468 f32 "jax:scan $graph $slow" \
        "--batch 128 --hidden 128"
    rounds=1
    train "784-128-10, batch 128" samples/mnist/mlp.net 468 tf32 "jax:scan $graph" "--batch 128 --hidden 128"
    train "784-128-64-10, batch 64" bench/mlp.net 937 tf32 "jax:scan $graph" "--batch 64 --hidden 128,64"
    train "784-512-512-10, batch 512" bench/mlp.net 117 tf32 "jax:scan $graph" "--batch 512 --hidden 512,512" \
        -D first=512 -D second=512 -D batch=512
    # Networks that no figure above is about: other depths, widths, activations, optimizers, losses.
    train "784-256-128-64-32-10 tanh, SGD, batch 96" bench/mlp_deep.net 625 tf32 "jax:scan $graph" \
        "--batch 96 --hidden 256,128,64,32 --activation tanh --optimizer sgd --peak 0.1"
    train "784-300-100-10 GELU, squares, batch 100" bench/mlp_squares.net 600 tf32 "jax:scan $graph" \
        "--batch 100 --hidden 300,100 --activation gelu --loss mse"
    local model=samples/mnist/mlp.net
    "$netc" profile $model --device cuda:0 >"$keep/profile_mlp.txt" 2>&1
    record "kernel nodes of a step of mlp.net" "$(grep -o '[0-9]* kernel nodes' "$keep/profile_mlp.txt" | cut -d' ' -f1)" \
        "" "netc profile $model"
    "$netc" profile bench/mlp.net --device cuda:0 >"$keep/profile_mlp_small.txt" 2>&1
    "$netc" profile bench/mlp.net -D first=512 -D second=512 -D batch=512 --device cuda:0 >"$keep/profile_mlp_large.txt" 2>&1
}

# From the start of the process, caches empty, to the first evaluation at 97.5 % or better; five seeds.
reached() { # of a log of netc or of a peer: seconds at the first such evaluation
    grep -E '"(eval|test)_accuracy"' "$1" | sed -E 's/.*"(eval|test)_accuracy": ?([0-9.e-]+).*"(seconds|since_start)": ?([0-9.e-]+).*/\2 \4/' |
        awk '$1 >= 0.975 && !done { print $2; done = 1 }'
}
part_accuracy() {
    local seed begin wall last at peer_runs=3
    [ -n "${QUICK:-}" ] && peer_runs=1
    : >"$out/ours"; : >"$out/warm"; : >"$out/jax"; : >"$out/torch"
    for seed in 0 1 2 3 4; do
        for cache in cold warm; do
            [ $cache = cold ] && rm -rf "$out/cache" "$out/cuda"
            begin=$EPOCHREALTIME
            "$netc" train samples/mnist/mlp.net "${data[@]}" "${test_data[@]}" --device cuda:0 --epochs 5 --seed $seed \
                --report-every 468 -q --log "$out/log.jsonl" >/dev/null || return 1
            # What the log does not count, starting and ending, is added whole.
            wall=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
            last=$(field seconds "$out/log.jsonl") at=$(reached "$out/log.jsonl")
            [ -n "$at" ] && awk "BEGIN { printf \"%.4f\n\", $wall - $last + $at }" >>"$out/$([ $cache = cold ] && echo ours || echo warm)"
        done
        [ $seed -lt $peer_runs ] || continue
        peer_run jax scan "$out/jax.json" --evaluate --seed $seed && reached "$out/jax.json" >>"$out/jax"
        peer_run torch graph "$out/torch.json" --evaluate --seed $seed && reached "$out/torch.json" >>"$out/torch"
    done
    local what="process start to 97.5 % of MNIST, cold caches" command="netc train samples/mnist/mlp.net --epochs 5"
    record "runs of 5 that reached 97.5 %" "$(wc -l <"$out/ours")" "" "$command"
    record "$what" "$(median <"$out/ours")" s "$command" "jax scan" "$(version "$out/jax.json")" "$(median <"$out/jax")"
    record "$what" "$(median <"$out/ours")" s "$command" "torch graph" "$(version "$out/torch.json")" "$(median <"$out/torch")"
    record "process start to 97.5 % of MNIST, warm cache" "$(median <"$out/warm")" s "$command"
}

# The whole process that writes mlp.bin; peers: the first epoch less a later one.
# Seconds that netc takes with empty caches and with full ones, into $out/cold and $out/warm.
cold_and_warm() { # TIMES COMMAND...
    local i times=$1; shift
    : >"$out/cold"; : >"$out/warm"
    for ((i = 0; i < times; i++)); do
        rm -rf "$out/cache" "$out/cuda"
        elapsed "$netc" "$@" >>"$out/cold" || return 1
        elapsed "$netc" "$@" >>"$out/warm"
    done
}

part_compile() {
    local p f name file options command="samples/mnist/mlp.net -o mlp.bin --target cuda --arch sm_90"
    # shellcheck disable=SC2086
    cold_and_warm 5 ${command/mlp.bin/$out/mlp.bin} || return 1
    for p in jax:scan $([ -n "${QUICK:-}" ] || echo torch:compile); do
        f=$out/${p/:/_}.first
        [ -e "$f" ] || { rm -rf "$out/inductor"; peer_run "${p%:*}" "${p#*:}" "$f" --epochs 3; } || continue
        record "compile mlp.net, cold" "$(median <"$out/cold")" s "netc $command" "${p/:/ }" "$(version "$f")" \
            "$(awk -v a="$(field first_epoch "$f")" -v b="$(field seconds_per_epoch "$f")" 'BEGIN { print a - b }')"
    done
    record "compile mlp.net, cold" "$(median <"$out/cold")" s "netc $command"
    record "compile mlp.net, warm" "$(median <"$out/warm")" s "netc $command"
    while IFS='|' read -r name file options; do
        command="$file $options --precision tf32 -o model.bin --target cuda --arch sm_90"
        # shellcheck disable=SC2086
        cold_and_warm 3 ${command/model.bin/$out/mlp.bin} || return 1
        record "compile $name, cold" "$(median <"$out/cold")" s "netc $command"
        record "compile $name, warm" "$(median <"$out/warm")" s "netc $command"
    done <<'END'
784-128-64-10|bench/mlp.net|
784-512-512-10|bench/mlp.net|-D first=512 -D second=512 -D batch=512
784-256-128-64-32-10 tanh, SGD|bench/mlp_deep.net|
784-300-100-10 GELU, squares|bench/mlp_squares.net|
END
    command="train samples/mnist/mlp.net --steps 1"
    # shellcheck disable=SC2086
    cold_and_warm 5 $command "${data[@]}" --device cuda:0 -q || return 1
    record "process of one step, data loaded, cold" "$(median <"$out/cold")" s "netc $command"
    record "process of one step, data loaded, warm" "$(median <"$out/warm")" s "netc $command"
}

# Device memory without the data set: parameters, optimizer, temporaries.
part_memory() {
    local model=samples/mnist/mlp.net ours=""
    "$netc" train $model "${data[@]}" --device cuda:0 --steps 1 >"$keep/memory.txt" || return 1
    ours=$(sed -n 's/^| \(parameters\|optimizer\|temporaries\|states\|workspace\) *| *\([0-9.]*\) \(bytes\|B\|KiB\|MiB\|GiB\) *|$/\2 \3/p' \
        "$keep/memory.txt" | awk '{ s += $1 * ($2 == "KiB" ? 1024 : $2 == "MiB" ? 1048576 : $2 == "GiB" ? 1073741824 : 1) } END { printf "%d", s }')
    local p f
    for p in graph eager; do
        f=$out/torch_$p.first
        [ -e "$f" ] || peer_run torch $p "$f" --epochs 1 || continue
        record "device memory of training mlp.net, without data" "$ours" bytes "netc train $model" "torch $p" \
            "$(version "$f")" "$(field peak_bytes_without_data "$f")"
    done
}

# The loss of 100 steps in f32 on the GPU and on the CPU; and twice on the GPU.
part_curve() {
    local model=samples/mnist/mlp.net device worst
    for device in cuda:0 cpu; do
        "$netc" train $model "${data[@]}" --steps 100 --report-every 1 --device $device -q \
            --log "$out/curve_${device%:0}.jsonl" >/dev/null || return 1
    done
    worst=$(paste -d' ' <(grep -o '"loss":[0-9.e+-]*' "$out/curve_cuda.jsonl" | cut -d: -f2) \
                        <(grep -o '"loss":[0-9.e+-]*' "$out/curve_cpu.jsonl" | cut -d: -f2) |
        awk 'NF == 2 { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > w) w = d; n++ } END { if (n == 100) printf "%.3g", w }')
    record "loss of 100 steps, GPU and CPU: largest relative difference" "$worst" "" "netc train $model --steps 100"
    for device in 1 2; do
        "$netc" train $model "${data[@]}" --epochs 1 --device cuda:0 -q --save "$out/run$device.safetensors" >/dev/null || return 1
    done
    record "an epoch twice on the GPU: parameters differ" \
        "$(cmp -s "$out/run1.safetensors" "$out/run2.safetensors" && echo 0 || echo 1)" "" "netc train $model --epochs 1"
}

part_kernels() {
    bash bench/kernels.sh "$build" "$results" "$keep"
}

for p in "${parts[@]}"; do
    declare -F "part_$p" >/dev/null || { echo "there is no part '$p'" >&2; exit 1; }
    begin=$SECONDS
    "part_$p" || echo "part $p did not finish"
    echo "-- $p: $((SECONDS - begin)) s"
done
[ -s "$results" ] || { echo "nothing was measured" >&2; exit 1; }
bash bench/report.sh "$results" >"${results%.jsonl}.md" && tail -1 "${results%.jsonl}.md"
if [ -z "${OUT:-}" ]; then
    cp "$results" "${results%.jsonl}.md" bench/results/
    results=bench/results/${results##*/}
fi
echo "results: $results, and as a table ${results%.jsonl}.md"
