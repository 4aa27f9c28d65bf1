#!/bin/bash
# What heads by parts of the rows cost and save on a GPU: the head alone, and GPT-2 124M at batch 16 and 32, with and
# without a memory limit, by turns; with another build's beside it where one is given. Steps and bytes of temporaries.
#
#   bash bench/head.sh [OLD_NETC]
cd "$(dirname "$0")/.." || exit 1
one() { # NETC FILE OPTION...
    local netc=$1 file=$2 step bytes; shift 2
    step=$(timeout 120 "$netc" bench "$file" -e train --precision bf16 --compiles 0 --repeats 9 --tune-file '' "$@" 2>&1 | grep -m1 ' step ')
    bytes=$("$netc" inspect "$file" --precision bf16 --target sm_90 --tune-file '' "$@" 2>/dev/null | awk '/^entry/ { train = $2 == "train" } train && /arena/ { print $3; exit }')
    echo "$netc ${file##*/} $*: $step; temporaries $bytes bytes"
}
for round in 1 2; do
    for netc in ${1:+"$1"} build/netc; do
        for file in "bench/kernels/head.net" "bench/gpt2.net -D batch=16" "bench/gpt2.net -D batch=32"; do
            # shellcheck disable=SC2086
            one "$netc" $file
        done
    done
    one build/netc bench/kernels/head.net --memory-limit 8000000000
    one build/netc bench/kernels/head.net --memory-limit 16000000000
    one build/netc bench/gpt2.net -D batch=16 --memory-limit 8000000000
    one build/netc bench/gpt2.net -D batch=32 --memory-limit 16000000000
    one build/netc bench/gpt2.net -D batch=32 --memory-limit 16000000000 --skip-passes chunks
    one build/netc bench/gpt2.net -D batch=32 --memory-limit 11000000000
done
