#!/bin/bash
# Training steps shared by several GPUs, beside PyTorch's DistributedDataParallel on the same GPUs in one run: milliseconds of a step on one
# GPU, and of one on all with as many times the batch.
#
#   bench/devices.sh [NAME...]     gpt2 gpt2_xl resnet50 vit convnext (default: all but gpt2_xl)
#
# NETC (build/netc), COUNT (2), PEER_PYTHON (python3; '' for no peer), MODES ("default": of torch.compile, or eager), OUT (build/devices)
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} count=${COUNT:-2} OUT=${OUT:-build/devices}
mkdir -p "$OUT"
names=${*:-gpt2 resnet50 vit convnext}

# NAME DEVICES: its file and options
file_of() {
    case $1 in
        gpt2) echo "bench/gpt2.net -D batch=$((16 * $2))" ;;
        gpt2_xl) echo "bench/gpt2.net -D layers=48 -D width=1600 -D heads=25 -D batch=$((8 * $2))" ;;
        convnext) echo "bench/workloads/convnext.net -D batch=$((64 * $2))" ;;
        *) echo "bench/workloads/$1.net -D batch=$((128 * $2))" ;;
    esac
}
# NAME DEVICES: milliseconds
ours() {
    # shellcheck disable=SC2046
    timeout 300 "$netc" bench $(file_of "$1" "$2") -e train --precision bf16 --device "cuda:$(seq -s , 0 $(($2 - 1)))" --tune-file '' \
        --compiles 0 --repeats 10 --json 2>"$OUT/$1.$2.err" | sed -n 's|.*train: step".*"value": *\([0-9.e+-]*\).*|\1|p'
}
: >"$OUT/peer.jsonl"
python=${PEER_PYTHON-python3}
if [ -n "$python" ]; then
    modes=""
    for m in ${MODES:-default}; do modes+=" --mode $m"; done
    for n in 1 "$count"; do
        # shellcheck disable=SC2086
        (cd bench/peers && timeout "${PEER_SECONDS:-590}" "$python" devices_torch.py "$n" $names $modes) >>"$OUT/peer.jsonl" 2>"$OUT/peer.$n.err"
    done
fi
for name in $names; do
    for n in 1 "$count"; do
        grep -h "\"name\": \"$name\", \"devices\": $n," "$OUT/peer.jsonl" | awk -v name="$name" -v n="$n" -v ours="$(ours "$name" "$n")" '
            function value(key,    v) { v = $0; sub(".*\"" key "\": ?\"?", "", v); sub("[\",}].*", "", v); return v }
            /"seconds"/ { peers = peers sprintf("   PyTorch %s %.3f ms (%.2f times)", value("mode"), value("seconds") * 1e3, value("seconds") * 1e6 / ours) }
            /"error"/ { peers = peers "   PyTorch " value("mode") " failed" }
            END { printf "%-10s %d GPUs  netc %9.3f ms%s\n", name, n, ours / 1e3, peers }'
    done
done
