#!/bin/bash
# f32 products of few results (recurrent steps, small batches, heads, gradients of small weights) beside PyTorch, which
# calls cuBLAS, in one run: microseconds of calls in a row, and how many times as fast netc is. About 60 s on an H100.
#
#   bench/few_results.sh [PRECISION...]     f32 tf32 (default: both)
#
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3), SIZES ("M,N,K ...").
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0}
sizes=${SIZES:-64,512,2048 64,2048,512 64,1024,4096 32,512,2048 64,10,3072 10,64,20000 48,200,7777 96,512,8192 128,1024,1024
    256,1024,4096 128,128,65536 200,300,2000 64,128,784 33,1000,1500}
W=$(mktemp -d)
trap 'rm -rf "$W"' EXIT
for precision in ${*:-f32 tf32}; do
    # shellcheck disable=SC2086
    (cd bench/peers && "${PEER_PYTHON:-python3}" few_results_torch.py --mode "$precision" $sizes) >"$W/peer" || exit 1
    for size in $sizes; do
        IFS=, read -r m n k <<<"$size"
        for form in nn nt tn; do
            "$netc" bench bench/few_results.net -e $form --precision "$precision" --device "$device" --compiles 0 --repeats 15 \
                --tune-file '' -D m="$m" -D n="$n" -D k="$k" --json 2>/dev/null |
                sed -n 's/.*: step","value":\([^,]*\),.*/\1/p' | sed "s/^/$form,$size /"
        done
    done >"$W/ours"
    awk -v precision="$precision" 'NR == FNR { peer[$1] = $2; next }
        { printf "%-5s %-20s netc %8.2f us  PyTorch %8.2f us  %.2f times\n", precision, $1, $2, peer[$1], peer[$1] / $2 }' \
        "$W/peer" "$W/ours"
done
