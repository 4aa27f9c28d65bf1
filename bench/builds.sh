#!/bin/bash
# Two builds of netc beside each other in one run, each model by one and the other in turn: what a change
# costs or brings. CPU or GPU.
#
#   bench/builds.sh FIRST SECOND [DEVICE]     two netc programs; DEVICE: cuda:0 (default) or cpu
#
# ONLY=PATTERN: only models whose line below holds it. ROUNDS (2): how often they take turns.
# Results: $OUT/first.jsonl and second.jsonl (default build/builds), and a table of what differs.
set -u
cd "$(dirname "$0")/.."
first=$1 second=$2 device=${3:-cuda:0}
OUT=${OUT:-build/builds}
mkdir -p "$OUT"
rm -f "$OUT"/first.jsonl "$OUT"/second.jsonl
export XDG_CACHE_HOME; XDG_CACHE_HOME=$(mktemp -d) || exit 1
trap 'rm -rf "$XDG_CACHE_HOME"' EXIT

models() { # a line each: MODEL OPTIONS
    local p
    for p in f32 tf32 bf16; do
        echo "samples/mnist/mlp.net --entry train --precision $p"
        echo "bench/mlp.net --entry train --precision $p"
        echo "bench/mlp.net --entry train --precision $p -D first=512 -D second=512 -D batch=512"
    done
    echo "bench/mlp_deep.net --entry train --precision tf32"
    [ "$device" = cpu ] && return
    for b in 512 128; do
        echo "samples/cifar10/resnet18.net --entry train --precision bf16 -D batch=$b"
    done
    echo "bench/kernels/norms.net"
    echo "bench/kernels/norms.net -D rows=32768 -D width=4096"
    echo "bench/kernels/norms_backward.net"
    for p in "32768 -D width=4096" "98304 -D width=1024" "24576 -D width=5120" "8000 -D width=12289"; do
        echo "bench/kernels/norms_backward.net -D rows=$p"
    done
    echo "bench/kernels/batch_norm.net"
    echo "bench/kernels/loss.net"
    echo "bench/kernels/linear.net --entry linear_gelu_both"
    echo "bench/kernels/adamw.net"
}

measure() { # FILE NETC LINE
    # shellcheck disable=SC2086
    timeout 120 "$2" bench $3 --device "$device" --compiles 0 --tune-file '' -q -o "$1" >>"$OUT/log.txt" 2>&1 ||
        echo "failed: $2 bench $3: $(tail -1 "$OUT/log.txt")"
}

for ((round = 0; round < ${ROUNDS:-2}; round++)); do
    while read -r line; do
        measure "$OUT/first.jsonl" "$first" "$line"
        measure "$OUT/second.jsonl" "$second" "$line"
    done < <(models | grep -E -- "${ONLY:-}")
done
"$second" bench --compare "$OUT/first.jsonl" "$OUT/second.jsonl"
