#!/bin/bash
# Attention on a GPU beside PyTorch's, causal, in bf16: forward, and its gradients (both less forward, the sum over
# rows that they begin with included).
#
#   bench/attention.sh [NETC]
#
# A line a shape and peer: microseconds, TFLOP/s of the products that the mask leaves (half of all; two forward, five
# backward), and how many times faster netc is. SHAPES: "BATCH HEADS T D" a line. DROP=0.1: with dropout. PEER_PYTHON: a Python with torch.
set -u
cd "$(dirname "$0")/.."
netc=${1:-build/netc} py=${PEER_PYTHON:-python3}
shapes=${SHAPES:-32 12 1024 64
4 16 4096 128
1 16 16384 128
32 12 1000 80
16 16 2048 96
1 1 65536 64}

step() { # ENTRY OPTIONS...: seconds
    local entry=$1; shift
    timeout 100 "$netc" bench bench/kernels/attention.net -e "$entry" --precision bf16 --device cuda:0 --compiles 0 \
        --tune-file '' --json "$@" | grep ': step"' | grep -o '"value":[ ]*[0-9.e+-]*' | head -1 | sed 's/.*://'
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
while read -r batch heads t d; do
    options=(-D batch="$batch" -D heads="$heads" -D T="$t" -D d="$d" -D drop="${DROP:-0}")
    forward=$(step forward "${options[@]}") both=$(step both "${options[@]}")
    (cd bench/peers && timeout 200 "$py" attention_torch.py "$batch" "$heads" "$t" "$d" "${DROP:-0}" 2>/dev/null) |
        awk -v shape="$batch $heads $t $d" -v f="$forward" -v b="$both" '
            function field(name) { match($0, "\"" name "\": [^,}]*"); return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) }
            function rate(products, s) { split(shape, x, " "); return products * x[1] * x[2] * x[3] * x[3] * x[4] / s / 1e12 }
            BEGIN { f = f * 1e-6; b = b * 1e-6
                    printf "%-18s netc                          forward %9.1f us %5.0f TFLOP/s   backward %9.1f us %5.0f TFLOP/s\n", shape,
                           f * 1e6, rate(2, f), (b - f) * 1e6, rate(5, b - f) }
            { s = field("seconds"); gsub(/"/, "", s); name = field("name"); mode = field("mode"); gsub(/[" ]/, "", name); gsub(/[" ]/, "", mode)
              own = name == "forward" ? f : b - f
              printf "%-18s %-29s %s %9.1f us %5.0f TFLOP/s   netc %.3fx\n", shape, mode, name, s * 1e6, rate(name == "forward" ? 2 : 5, s), s / own }'
done <<<"$shapes"
