#!/bin/bash
# Operations on a GPU in odd sizes (bench/gpu_ops.net) beside the same in PyTorch (bench/peers/gpu_ops_torch.py) in one run: microseconds,
# and how many times as fast netc is.
#
#   bench/gpu_ops.sh [NAME...]     default: all
#
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3; '' for no peer), MODES ("eager": calls in a CUDA graph; "default": of
# torch.compile), OUT (build/gpu_ops). Products of f32 are TF32 for both. SHAPES=N: sizes drawn from the seed N (bench/shapes.awk) instead.
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} OUT=${OUT:-build/gpu_ops} python=${PEER_PYTHON-python3}
mkdir -p "$OUT"
export NET=$PWD/bench/gpu_ops.net
if [ -n "${SHAPES:-}" ]; then
    awk -v seed="$SHAPES" -f bench/shapes.awk "$NET" >"$OUT/gpu_ops_$SHAPES.net"
    NET=$(realpath "$OUT/gpu_ops_$SHAPES.net")
fi
names=${*:-$(sed -n 's/^model \([a-z_0-9]*\)(.*/\1/p' "$NET")}
for name in $names; do
    timeout 120 "$netc" bench "$NET" -e "$name" --precision tf32 --device "$device" --tune-file '' --compiles 0 \
        --repeats 9 --json 2>"$OUT/$name.err" | sed -n "s/.*: step\",\"value\":[ ]*\([0-9.e+-]*\).*/$name netc \1/p"
done >"$OUT/netc"
modes=
for m in ${MODES:-eager}; do modes+=" --mode $m"; done
: >"$OUT/peer.jsonl"
# shellcheck disable=SC2086
[ -z "$python" ] || (cd bench/peers && timeout "${PEER_SECONDS:-590}" "$python" gpu_ops_torch.py $modes $names) >"$OUT/peer.jsonl" 2>"$OUT/peer.err"
sed 's/.*"name": "\([^"]*\)".*"mode": "\([^"]*\)".*"seconds": \([0-9.e+-]*\).*/\1 \2 \3/' "$OUT/peer.jsonl" >"$OUT/peer"
awk 'NR == FNR { own[$1] = $3; order[n++] = $1; next }
     { peers[$1] = peers[$1] sprintf("   %s %10.1f us (%.2f times)", $2, $3 * 1e6, $3 * 1e6 / (own[$1] ? own[$1] : 1e9)) }
     END { for (i = 0; i < n; i++) printf "%-22s %10.1f us%s\n", order[i], own[order[i]], peers[order[i]] }' "$OUT/netc" "$OUT/peer"
[ -z "${SHAPES:-}" ] || grep '^model' "$NET" | sed 's/ {.*//'
for name in $names; do grep -q "^$name " "$OUT/netc" || echo "$name: $(tail -2 "$OUT/$name.err")"; done
