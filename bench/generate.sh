#!/bin/bash
# Writing text, in bf16, beside PyTorch with a static cache under torch.compile (CUDA graphs): a token of GPT-2 124M, 1 and 32
# texts; and a LLaMA-style decoder of 350 million parameters (samples/llama, SmolLM2-360M's sizes) that reads a prompt
# which fills 32,768 positions but 64, in pieces, and writes 64 tokens: attention to what is there at each step. About 120 s on an H100.
#
#   bench/generate.sh [PART...]     parts: gpt2 llama (default: both)
#
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3), PIECE (8192): tokens of a piece, PEERS=0: netc alone.
set -u
cd "$(dirname "$0")/.."
W=$(mktemp -d)
trap 'rm -rf "$W"' EXIT
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} piece=${PIECE:-8192} new=64 context=32768
sizes="-D layers=32 -D width=960 -D heads=15 -D kv_heads=5 -D hidden=2560 -D context=$context -D piece=$piece"
ours() { # MODEL ENTRY STEPS OPTION...: microseconds of a step
    local model=$1 entry=$2 steps=$3; shift 3
    "$netc" bench "$model" -e "$entry" --precision bf16 --device "$device" --steps "$steps" --repeats 5 --compiles 0 \
        --tune-file '' --json "$@" 2>&1 | sed -n 's/.*: step","value":\([^,]*\),.*/\1/p'
}
peer() { [ "${PEERS:-1}" = 0 ] || (cd bench/peers && timeout 300 "${PEER_PYTHON:-python3}" "$@" 2>&1 | tail -2); }
for part in ${*:-gpt2 llama}; do
    case $part in
    gpt2)
        for count in 1 32; do echo "gpt2, $count texts: $(ours samples/gpt2/gpt2.net next 50 -D count=$count) us a token"; done
        peer generate_torch.py 1 32
        ;;
    llama)
        # Timed are the steps behind a first one: from the text's begin to its end, and behind the prompt.
        begins() { sed "s/scratch state at: i32\[\] = 0/scratch state at: i32[] = $1/" samples/llama/llama.net >"$W/llama.net"; }
        begins -$piece; read=$(ours "$W/llama.net" prefill $((context / piece)) $sizes)
        begins $((context - new - 1)); write=$(ours "$W/llama.net" next $new $sizes)
        awk -v read="$read" -v write="$write" -v pieces=$((context / piece)) -v share=$((context - new))/$context -v new=$new '
            BEGIN { split(share, of, "/"); s = read * pieces * of[1] / of[2] / 1e6
                    printf "llama: %.1f us a piece, the prompt %.3f s, %.1f us a token, in all %.3f s\n", read, s, write, s + write * new / 1e6 }'
        peer prefill_torch.py
        ;;
    *) echo "there is no part '$part': gpt2, llama"; exit 2 ;;
    esac
done
