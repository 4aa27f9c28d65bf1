#!/bin/bash
# The memory-bound kernels and linear layers beside PyTorch and a copy of as many bytes: called by bench/gpu.sh.
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
# A fast kernel that is wrong is worth nothing: the same models at sizes the reference evaluator can follow.
wrong=0
while read -r model; do
    # shellcheck disable=SC2086
    "$build/netc" check bench/kernels/$model --device "${DEVICE:-cuda:0}" >"$out/check.txt" 2>&1 && continue
    wrong=$((wrong + 1))
    { echo "== $model"; cat "$out/check.txt"; } >>"$keep/kernels_wrong.txt"
done <<'END'
norms.net -D rows=300 -D width=768
norms.net -D rows=40 -D width=4096
norms_backward.net -D rows=300 -D width=768
norms_backward.net -D rows=40 -D width=4096
loss.net -D rows=6 -D classes=50304
adamw.net -D parts=16 -D size=1001
batch_norm.net -D rows=5000 -D channels=64
linear.net -D rows=300 -D wide=72 -D width=136
END
record "benchmark models of 8 that differ from the reference" "$wrong" "" "netc check bench/kernels/*.net"

"$out/kernels" >"$ours" 2>"$keep/kernels_steps.txt" || echo "not all kernels ran: see kernels_steps.txt"
timeout 240 "$py" bench/peers/kernels_torch.py ${QUICK:+--mode compile} >"$peers" 2>"$keep/kernels_torch.err" ||
    echo "PyTorch did not finish: $(tail -1 "$keep/kernels_torch.err")"
# shellcheck disable=SC2086
timeout 300 "$py" bench/peers/linear_torch.py ${LINEAR_MODES:---mode default} >>"$peers" 2>"$keep/linear_torch.err" ||
    echo "PyTorch did not finish: $(tail -1 "$keep/linear_torch.err")"
"$out/kernels" --unlisted >"$keep/kernels_unlisted.jsonl" 2>>"$keep/kernels_steps.txt" ||
    echo "not all unlisted sizes ran: see kernels_steps.txt"

of() { sed -n "s/.*\"$1\": *\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p"; } # NAME: that field of each line
round() { awk -v v="$1" 'BEGIN { if (v) printf "%.5g", v }'; }
# The rate of a line: FIELD and UNIT, operations for products, bytes for the rest.
kind() { case $1 in *tflop_per_s*) field=tflop_per_s unit=TFLOP/s ;; *) field=gb_per_s unit=GB/s ;; esac; }
while IFS= read -r line; do
    kind "$line"
    name=$(of name <<<"$line") rate=$(of $field <<<"$line") bytes=$(of bytes <<<"$line")
    # The best peer for this kernel; then the copy of as many bytes.
    best=$(grep -F "\"name\": \"$name\"" "$peers" | awk -F"\"$field\": " '{ split($2, a, ","); print a[1] "\t" $0 }' | sort -gr |
        head -1 | cut -f2-)
    record "$name" "$rate" $unit "bench/kernels '$name'" "torch $(of mode <<<"$best")" "$(of version <<<"$best")" \
        "$(round "$(of $field <<<"$best")")"
    copy=$([ -n "$bytes" ] && grep -F "\"name\": \"copy $bytes\"" "$peers" | of gb_per_s)
    [ -n "$copy" ] && record "$name" "$rate" $unit "bench/kernels '$name'" "copy of the same bytes" "" "$(round "$copy")"
done <"$ours"

# Sizes no table lists, beside the slowest listed size of the same kernel.
while IFS= read -r line; do
    kind "$line"
    name=$(of name <<<"$line") rate=$(of $field <<<"$line") like=$(of like <<<"$line")
    listed=$(awk -F'"' -v like="$like" '{ n = $4; sub(/ [^ ]*$/, "", n) } n == like' "$ours" | of $field | sort -g | head -1)
    record "unlisted: $name" "$rate" $unit "bench/kernels --unlisted '$like'" "netc, listed sizes" "" "$listed"
done <"$keep/kernels_unlisted.jsonl"
