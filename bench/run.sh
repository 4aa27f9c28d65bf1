#!/bin/bash
# What a machine without a GPU can measure, beside JAX where it is installed.
#
#   bench/run.sh [BUILD]     after `make`; about three minutes. Results: a table, and JSON lines added to
#                            bench/results/cpu.jsonl
#
# MNIST_DIR: folder of the MNIST files (default ../shared/data/mnist; digits drawn by digits-gen when there
# are none). PEER_PYTHON: a Python with jax (default python3). Run it on a machine that does nothing else.
set -u
cd "$(dirname "$0")/.."
. bench/lib.sh
build=${1:-build}
netc=$build/netc
[ -x "$netc" ] || { echo "$netc is not there: run make first" >&2; exit 1; }
results=${RESULTS:-bench/results/cpu.jsonl}
mkdir -p "$(dirname "$results")"
results=$(cd "$(dirname "$results")" && pwd)/$(basename "$results")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export XDG_CACHE_HOME=$out/cache
hardware="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) threads"
driver=none
py=${PEER_PYTHON:-}
for p in $py python3 /opt/peers/bin/python; do
    if "$p" -c 'import jax' 2>/dev/null; then py=$p; break; else py=; fi
done
jax_version=$([ -n "$py" ] && "$py" -c 'import jax; print(jax.__version__)')

mnist=${MNIST_DIR:-../shared/data/mnist}
if [ ! -e "$mnist/train-images-idx3-ubyte.gz" ] && [ ! -e "$mnist/train-images-idx3-ubyte" ]; then
    [ -x "$build/digits-gen" ] || make BUILD="$build" "$build/digits-gen" >/dev/null
    mnist=$out/digits
    "$build/digits-gen" "$mnist" >/dev/null || exit 1
fi
gz=$([ -e "$mnist/train-images-idx3-ubyte.gz" ] && echo .gz)
data=(--data "image=$mnist/train-images-idx3-ubyte$gz" --data "label=$mnist/train-labels-idx1-ubyte$gz")

awk '{ exit !($1 < 0.7) }' /proc/loadavg || echo "note: the load is $(cut -d' ' -f1 /proc/loadavg): times will be worse than on a quiet machine"

# -- training: seconds an epoch, no evaluation, the runs of netc and JAX taking turns
train() { # MODEL NAME STEPS-AN-EPOCH BATCH HIDDEN [OPTION...]
    local model=$1 name=$2 steps=$3 batch=$4 hidden=$5 epochs=${EPOCHS:-6} round mode best="" best_mode v; shift 5
    : >"$out/ours"; : >"$out/scan"; : >"$out/step"
    for round in 1 2 3; do
        "$netc" train "$model" "${data[@]}" "$@" --device cpu --epochs "$epochs" --report-every "$steps" -q \
            --log "$out/log.jsonl" >/dev/null || return 1
        epoch_seconds "$out/log.jsonl" >>"$out/ours"
        [ -n "$py" ] && [ $round -lt 3 ] || continue
        for mode in scan step; do
            "$py" bench/peers/mnist_jax.py --data "$mnist" --device cpu --mode $mode --batch "$batch" \
                --hidden "$hidden" --epochs "$epochs" >"$out/peer.txt" 2>/dev/null &&
                peer_epoch_seconds "$out/peer.txt" >>"$out/$mode"
        done
    done
    for mode in scan step; do
        v=$(median <"$out/$mode")
        [ -n "$v" ] && { [ -z "$best" ] || awk "BEGIN { exit !($v < $best) }"; } && best=$v best_mode=$mode
    done
    record "$name" "$(median <"$out/ours")" s "netc train $model $* --device cpu" \
        ${best:+"JAX, $best_mode"} ${best:+"$jax_version"} ${best:+"$best"}
}
train samples/mnist/mlp.net "epoch of 784-128-10, batch 128, CPU" 468 128 128
EPOCHS=3 train bench/mlp.net "epoch of 784-512-512-10, batch 512, CPU" 117 512 512,512 \
    -D first=512 -D second=512 -D batch=512

# -- compiling: the whole process, caches empty, then warm
compile() { # NAME ARGUMENT...
    local name=$1 i; shift
    : >"$out/cold"; : >"$out/warm"
    for i in 1 2 3 4 5; do
        rm -rf "$out/cache"
        elapsed "$netc" "$@" >>"$out/cold" || return 1
        elapsed "$netc" "$@" >>"$out/warm"
        elapsed "$netc" "$@" >>"$out/warm"
    done
    record "$name, cold" "$(median <"$out/cold")" s "netc $*"
    record "$name, warm" "$(median <"$out/warm")" s "netc $*"
}
compile "compile mlp.net for sm_90 and this CPU" samples/mnist/mlp.net -o "$out/mlp.bin" --arch sm_90
compile "compile mlp.net for this CPU" samples/mnist/mlp.net -o "$out/mlp.bin" --target cpu
compile "mlp.net as CUDA text" samples/mnist/mlp.net --emit cuda

# -- memory: what the plan reserves over what is live at once, worst entry of each sample
for f in samples/*/*.net; do
    for target in cuda cpu; do
        "$netc" inspect "$f" --json --target $target >"$out/inspect.json" 2>/dev/null || continue
        grep -o '"arena_bytes":[0-9]*,"peak_bytes":[0-9]*' "$out/inspect.json" | tr -c '0-9\n' ' ' |
            awk '$2 > 0 { r = $1 / $2; if (r > w) w = r; n++; if ($1 > b) b = $1 } END { if (n) print w, b }' >"$out/ratio"
        read -r ratio bytes <"$out/ratio" || continue
        record "arena over peak of live values, $(basename "$f"), $target" "$(printf %.4f "$ratio")" "" \
            "netc inspect $f --json --target $target"
        [ "$f" = samples/mnist/mlp.net ] &&
            record "temporaries of mlp.net, $target" "$bytes" bytes "netc inspect $f --json --target $target"
    done
done

# -- large graphs: to CUDA text, 25, 50 and 100 thousand operations
for blocks in 117 233 467; do
    n=$("$netc" bench/deep.net -D blocks=$blocks --emit grad | grep -c ' = ')
    : >"$out/times"
    for i in 1 2 3; do
        elapsed "$netc" bench/deep.net -D blocks=$blocks --emit cuda >>"$out/times"
    done
    t=$(median <"$out/times")
    record "compile a graph of $n operations to CUDA text" "$t" s "netc bench/deep.net -D blocks=$blocks --emit cuda"
    record "the same for each operation" "$(awk "BEGIN { printf \"%.3f\", $t / $n * 1e6 }")" us \
        "netc bench/deep.net -D blocks=$blocks --emit cuda"
done
echo "results: $results"
