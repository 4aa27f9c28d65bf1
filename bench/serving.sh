#!/bin/bash
# Predictions of the networks of bench/workloads and of samples/bert, beside the same in PyTorch (bench/peers/serving_torch.py) in one run:
# microseconds of a batch, how many times as fast netc is, temporaries in MB. Both have the inputs on the device and leave the results there.
#
#   bench/serving.sh [NAME | NAME:BATCH...]    default: all, at the batches below
#
# netc: executions in a row. PyTorch: calls in a row from Python or, if that is faster, within one CUDA graph.
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3; '' for no peer), MODES ("reduce-overhead": of torch.compile, or eager),
# PEER_SECONDS (590): of each network, PROFILE=1: also the slowest kernels, in $OUT/NAME.BATCH.profile.
# OUT (build/serving): what netc and the peer print.
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} OUT=${OUT:-build/serving}
mkdir -p "$OUT"
all="resnet50 resnext50 mobilenet convnext vit mixer unet unet3d diffusion vae dcgan bert moe wavenet gcn dlrm pinn"

# NAME: its file, entry and options
entry_of() {
    case $1 in
        resnext50) echo "bench/workloads/resnet50.net -e predict -D groups=32 -D width=128" ;;
        bert) echo "samples/bert/bert.net -e fill" ;;
        *) echo "bench/workloads/$1.net -e predict" ;;
    esac
}
batches_of() {
    case $1 in
        unet3d) echo 1 2 8 ;;
        gcn) echo 1 ;; # the whole graph
        dlrm | pinn) echo 1 128 8192 ;;
        *) echo 1 8 128 ;;
    esac
}
precision_of() { [ "$1" = pinn ] && echo tf32 || echo bf16; }

rows=()
for word in ${*:-$all}; do
    case $word in
        *:*) rows+=("$word") ;;
        *) for batch in $(batches_of "$word"); do rows+=("$word:$batch"); done ;;
    esac
done
for row in "${rows[@]}"; do
    name=${row%:*} batch=${row#*:}
    options="$(entry_of "$name") --precision $(precision_of "$name") --device $device"
    [ "$name" = gcn ] || options+=" -D batch=$batch"
    # shellcheck disable=SC2086
    timeout 300 "$netc" bench $options --tune-file '' --compiles 0 --repeats 15 --json >"$OUT/$name.$batch.jsonl" 2>"$OUT/$name.$batch.err" ||
        echo "$row: $(tail -3 "$OUT/$name.$batch.err")"
    [ -z "${PROFILE:-}" ] && continue
    # shellcheck disable=SC2086
    timeout 300 "$netc" profile $options --tune-file '' --repeats 5 >"$OUT/$name.$batch.profile" 2>&1
done
python=${PEER_PYTHON-python3}
if [ -n "$python" ]; then
    modes=""
    for m in ${MODES:-reduce-overhead}; do modes+=" --mode $m"; done
    : >"$OUT/peer.jsonl"
    for name in $(printf '%s\n' "${rows[@]%:*}" | awk '!seen[$0]++'); do # a process each: what fails or hangs takes no other with it
        # shellcheck disable=SC2046,SC2086
        (cd bench/peers && timeout "${PEER_SECONDS:-590}" "$python" serving_torch.py $(printf '%s\n' "${rows[@]}" | grep "^$name:") $modes) \
            >>"$OUT/peer.jsonl" 2>"$OUT/$name.peer.err" || echo "$name: PyTorch: $(tail -1 "$OUT/$name.peer.err")"
    done
fi
for row in "${rows[@]}"; do
    name=${row%:*} batch=${row#*:}
    grep -h "\"name\": \"$name\", \"batch\": $batch," "$OUT/peer.jsonl" 2>/dev/null | cat "$OUT/$name.$batch.jsonl" - | awk -v row="$row" '
        function value(key,    v) { v = $0; sub(".*\"" key "\": ?\"?", "", v); sub("[\",}].*", "", v); return v }
        /: step"/ { ours = value("value") }
        /: temporaries"/ { bytes = value("value") }
        /"error"/ { peers = peers "   PyTorch " value("mode") " failed"; next }
        /"seconds"/ { us = value("seconds") * 1e6; peers = peers sprintf("   PyTorch %s %.1f us (%.2f times%s)", value("mode"), us, ours ? us / ours : 0,
            /"graph"/ ? sprintf("; from Python %.1f us", value("calls") * 1e6) : "") }
        END { printf "%-14s netc %9.1f us, temporaries %.0f MB%s\n", row, ours, bytes / 1e6, peers }'
done
