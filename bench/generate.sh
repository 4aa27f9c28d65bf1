#!/bin/bash
# Writing text, in bf16, beside PyTorch with a static cache under torch.compile (CUDA graphs): a token of GPT-2 124M, 1 and 32
# texts; and a LLaMA-style decoder of 350 million parameters (samples/llama, SmolLM2-360M's sizes) that reads a prompt
# which fills 32,768 positions but 64, in pieces, and writes 64 tokens: attention to what is there at each step. About 120 s on an H100.
# llama8b: one of Llama-3-8B's sizes and 8,192 positions (48 GB of weights: of f32, and their copies of bf16).
#
#   bench/generate.sh [PART...]     parts: gpt2 llama llama8b (default: the first two)
#
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3), PIECE (8192): tokens of a piece, PEERS=0: netc alone.
set -u
cd "$(dirname "$0")/.."
W=$(mktemp -d)
trap 'rm -rf "$W"' EXIT
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} new=64
ours() { # MODEL ENTRY STEPS OPTION...: microseconds of a step
    local model=$1 entry=$2 steps=$3; shift 3
    "$netc" bench "$model" -e "$entry" --precision bf16 --device "$device" --steps "$steps" --repeats 5 --compiles 0 \
        --tune-file '' --json "$@" 2>&1 | sed -n 's/.*: step","value":\([^,]*\),.*/\1/p'
}
peer() { [ "${PEERS:-1}" = 0 ] || (cd bench/peers && timeout 300 "${PEER_PYTHON:-python3}" "$@" 2>&1 | tail -2); }

# NAME CONTEXT PIECE SIZES: reads a prompt that fills the context but for `new` tokens, then writes these
decoder() {
    local name=$1 context=$2 piece=$3 read write
    local sizes="$4 -D context=$context -D piece=$piece"
    # Timed are the steps behind a first one: from the text's begin to its end, and behind the prompt.
    begins() { sed "s/scratch state at: i32\[\] = 0/scratch state at: i32[] = $1/" samples/llama/llama.net >"$W/llama.net"; }
    # shellcheck disable=SC2086
    begins -"$piece"; read=$(ours "$W/llama.net" prefill $((context / piece)) $sizes)
    # shellcheck disable=SC2086
    begins $((context - new - 1)); write=$(ours "$W/llama.net" next $new $sizes)
    awk -v name="$name" -v read="$read" -v write="$write" -v pieces=$((context / piece)) -v share=$((context - new))/"$context" -v new=$new '
        BEGIN { split(share, of, "/"); s = read * pieces * of[1] / of[2] / 1e6
                printf "%s: %.1f us a piece, the prompt %.3f s, %.1f us a token, in all %.3f s\n", name, read, s, write, s + write * new / 1e6 }'
}
for part in ${*:-gpt2 llama}; do
    case $part in
    gpt2)
        for count in 1 32; do echo "gpt2, $count texts: $(ours samples/gpt2/gpt2.net next 50 -D count=$count) us a token"; done
        peer generate_torch.py 1 32
        ;;
    llama)
        decoder llama 32768 "${PIECE:-8192}" "-D layers=32 -D width=960 -D heads=15 -D kv_heads=5 -D hidden=2560"
        peer prefill_torch.py
        ;;
    llama8b)
        decoder llama8b 8192 "${PIECE:-2048}" "-D layers=32 -D width=4096 -D heads=32 -D kv_heads=8 -D hidden=14336 -D vocab=128256 \
            -D tied=false -D base=500000"
        peer prefill_torch.py --mode 8b
        ;;
    *) echo "there is no part '$part': gpt2, llama, llama8b"; exit 2 ;;
    esac
done
