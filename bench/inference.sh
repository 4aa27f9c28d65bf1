#!/bin/bash
# Inference of ResNet-18 for CIFAR-10 (samples/cifar10/resnet18.net: bytes in, logits out) in bf16, at batch 1 and 256, beside
# PyTorch: eager and compiled, weights in bf16, batch norm folded, replays of a CUDA graph. About 60 s on an H200, 240 s with
# max-autotune.
#
#   bench/inference.sh [MODE...]    modes of torch.compile, or eager (default: eager default max-autotune-no-cudagraphs)
#
# netc: executions in a row, one graph launch each. PyTorch: graph: calls within one CUDA graph; clock: one call after the
# other from Python. NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3), PEER_SECONDS (150): of a mode, OUT
# (build/inference): logs.
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} out=${OUT:-build/inference} device=${DEVICE:-cuda:0}
mkdir -p "$out"
model=$out/resnet18_logits.net # the sample without its loss
sed -e 's/, label: u8\[batch\] in 0..10//' -e 's/return loss = .*/return logits/' -e '/^train/,$d' samples/cifar10/resnet18.net >"$model"
ours() { # BATCH ROUND
    "$netc" bench "$model" -e resnet --precision bf16 -D batch="$1" --device "$device" --compiles 0 --repeats 15 --tune-file '' --json \
        >"$out/netc.$1.$2" 2>&1 || echo "batch $1: $(tail -1 "$out/netc.$1.$2")"
    sed -n 's/.*resnet: step","value":\([^,]*\),.*/\1/p' "$out/netc.$1.$2"
}
[ $# -gt 0 ] || set -- eager default max-autotune-no-cudagraphs
for batch in ${BATCHES:-1 256}; do
    echo "batch $batch: netc $(ours $batch 1) us"
    for mode; do
        timeout "${PEER_SECONDS:-150}" "${PEER_PYTHON:-python3}" bench/peers/resnet18_torch.py infer "$mode" $batch \
            >"$out/torch.$mode.$batch" 2>"$out/torch.$mode.$batch.err" ||
            echo "batch $batch: PyTorch $mode did not finish: $(tail -1 "$out/torch.$mode.$batch.err")"
    done
    mine=$(ours $batch 2)
    echo "batch $batch: netc $mine us"
    cat "$out"/torch.*."$batch" | sed 's/[{}",:]/ /g' | awk -v mine="$mine" -v batch=$batch '
        { split("", v); for (i = 1; i < NF; i++) v[$i] = $(i + 1)
          best = v["clock"]; if (v["seconds"] && v["seconds"] < best) best = v["seconds"]
          printf "batch %d: PyTorch %-28s graph %8.1f us, clock %8.1f us, compiled in %5.1f s; netc %.2f times as fast as the better\n",
              batch, v["mode"], v["seconds"] * 1e6, v["clock"] * 1e6, v["compile"], mine ? best * 1e6 / mine : 0 }'
done
timeout 60 "$netc" profile "$model" -e resnet --precision bf16 -D batch=1 --device "$device" --tune-file '' >"$out/profile.1" 2>&1
