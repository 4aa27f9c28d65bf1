#!/bin/bash
# The memory-bound kernels beside PyTorch and a copy of as many bytes: called by bench/gpu.sh.
#
#   bench/kernels.sh BUILD RESULTS FOLDER
#
# Adds to RESULTS (JSON lines) and leaves what the programs printed in FOLDER.
set -u
cd "$(dirname "$0")/.."
. bench/lib.sh
build=$1 results=$2 keep=$3
hardware=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$out/inductor
py=${PEER_PYTHON:-python3}
ours=$keep/kernels.jsonl peers=$keep/kernels_torch.jsonl

${CC:-cc} -std=gnu17 -O2 -Iinclude bench/kernels.c "$build/libnetc.a" -ldl -lm -lpthread -lz -o "$out/kernels" || exit 1
"$out/kernels" >"$ours" 2>"$keep/kernels_steps.txt" || echo "not all kernels ran: see kernels_steps.txt"
timeout 240 "$py" bench/peers/kernels_torch.py >"$peers" 2>"$keep/kernels_torch.err" ||
    echo "PyTorch did not finish: $(tail -1 "$keep/kernels_torch.err")"

of() { sed -n "s/.*\"$1\": *\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p"; } # NAME: that field of each line
round() { awk -v v="$1" 'BEGIN { if (v) printf "%.5g", v }'; }
while IFS= read -r line; do
    name=$(of name <<<"$line") rate=$(of gb_per_s <<<"$line") bytes=$(of bytes <<<"$line")
    # The best peer for this kernel; then the copy of as many bytes.
    best=$(grep -F "\"name\": \"$name\"" "$peers" | awk -F'"gb_per_s": ' '{ split($2, a, ","); print a[1] "\t" $0 }' | sort -gr |
        head -1 | cut -f2-)
    copy=$(grep -F "\"name\": \"copy $bytes\"" "$peers" | of gb_per_s)
    record "$name" "$rate" GB/s "bench/kernels '$name'" "torch $(of mode <<<"$best")" "$(of version <<<"$best")" \
        "$(round "$(of gb_per_s <<<"$best")")"
    [ -n "$copy" ] && record "$name" "$rate" GB/s "bench/kernels '$name'" "copy of the same bytes" "" "$(round "$copy")"
done <"$ours"
