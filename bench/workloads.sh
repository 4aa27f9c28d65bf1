#!/bin/bash
# Training steps of networks that people bring (bench/workloads), beside the same in PyTorch (bench/peers/workloads*_torch.py) in one
# run: milliseconds of a step, how many times as fast netc is, seconds of compiling from nothing, temporaries and states in MB.
#
#   bench/workloads.sh [NAME...]     default: all
#
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3; '' for no peer), MODES ("default": of torch.compile, or eager), PROFILE=1: also the
# slowest kernels, in $OUT/NAME.profile. PRECISION=tf32: all in it, without bf16. OUT (build/workloads): what netc and the peer print.
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} OUT=${OUT:-build/workloads}
mkdir -p "$OUT"
all="resnet50 resnext50 mobilenet convnext vit mixer unet unet3d diffusion vae dcgan bert moe wavenet gcn dlrm pinn tabular"
all+=" llama translate lstm_lm mamba conformer gat pointnet flow nerf ppo"
all+=" gpt2_xl efficientnet densenet swin detector simclr vqvae stylegan wgan"
all+=" deeplab edsr hifigan r2plus1d mae detr clip capsule arcface"
all+=" maml schnet ctc crf rwkv retnet mla whisper perceiver patchtst nbeats fno node kan twotower sac"
all+=" shufflenet longformer mamba2 instantngp byol rainbow"

# NAME: its file and options
file_of() {
    case $1 in
        resnext50) echo "bench/workloads/resnet50.net -D groups=32 -D width=128" ;;
        bert) echo "samples/bert/bert.net" ;;
        gpt2_xl) echo "bench/gpt2.net -D layers=48 -D width=1600 -D heads=25 -D batch=8" ;; # 1.6 billion parameters
        *) echo "bench/workloads/$1.net" ;;
    esac
}
precision_of() { case ${PRECISION:+tf32}$1 in tf32* | pinn | tabular | pointnet | flow | nerf | ppo | maml | schnet | crf | fno | sac | instantngp) echo tf32 ;; *) echo bf16 ;; esac; }

for name in ${*:-$all}; do
    # shellcheck disable=SC2046,SC2086
    timeout 300 "$netc" bench $(file_of "$name") -e train --precision "$(precision_of "$name")" --device "$device" --tune-file '' \
        --compiles "${COMPILES:-1}" --repeats 15 --json >"$OUT/$name.jsonl" 2>"$OUT/$name.err" ||
        echo "$name: $(tail -3 "$OUT/$name.err")"
    [ -z "${PROFILE:-}" ] && continue
    # shellcheck disable=SC2046
    timeout 300 "$netc" profile $(file_of "$name") -e train --precision "$(precision_of "$name")" --device "$device" --tune-file '' \
        --repeats 5 >"$OUT/$name.profile" 2>&1
done
python=${PEER_PYTHON-python3}
if [ -n "$python" ]; then
    modes=${PRECISION:+" --tf32"}
    for m in ${MODES:-default}; do modes+=" --mode $m"; done
    : >"$OUT/peer.jsonl"
    for file in bench/peers/workloads*_torch.py; do # those that it has
        names=""
        for name in ${*:-$all}; do grep -q "^def $name()" "$file" && names+=" $name"; done
        [ -z "$names" ] && continue
        # shellcheck disable=SC2086
        (cd bench/peers && timeout "${PEER_SECONDS:-590}" "$python" "${file##*/}" $names $modes) >>"$OUT/peer.jsonl" 2>"$OUT/$(basename "$file" .py).err"
    done
fi
for name in ${*:-$all}; do
    grep -h "\"name\": \"$name\"" "$OUT/peer.jsonl" 2>/dev/null | cat "$OUT/$name.jsonl" - | awk -v name="$name" '
        function value(key,    v) { v = $0; sub(".*\"" key "\": ?\"?", "", v); sub("[\",}].*", "", v); return v }
        /train: step"/ { ours = value("value") / 1e3 }
        /compile, cold"/ { cold = sprintf(", compiled in %.1f s", value("value")) }
        /train: temporaries"/ { bytes = value("value") }
        /"seconds"/ { peers = peers sprintf("   PyTorch %s %.3f ms (%.2f times; first step after %.1f s)", value("mode"), value("seconds") * 1e3, value("seconds") * 1e3 / (ours ? ours : 1e9), value("first")) }
        /"error"/ { peers = peers "   PyTorch " value("mode") " failed" }
        END { printf "%-10s netc %9.3f ms, temporaries %.0f MB%s%s\n", name, ours, bytes / 1e6, cold, peers }'
done
