#!/bin/bash
# What compiling GPT-2 costs by its depth: 12, 48 and 96 layers. Needs no GPU; with one, whole compilations too.
#
#   bench/depth.sh [NETC] [DEVICE]     a netc program (build/netc); DEVICE: cuda:0, or none
#
# LAYERS="12 48 96". NVRTC=0: do not compile kernels (half a minute of processor time, by the network's width, not depth).
# Columns: processor seconds from text to kernels' text (least of three), kernels that differ, KB of their text;
# NVRTC's processor seconds; with a device, seconds of a cold and of a warm compilation at batch 4.
set -u
cd "$(dirname "$0")/.." || exit 1
netc=${1:-build/netc} device=${2:-} out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
TIMEFORMAT='%U %S'
for layers in ${LAYERS:-12 48 96}; do
    options=(bench/gpt2.net --precision bf16 -D batch=16 -D "layers=$layers" --tune-file '')
    for _ in 1 2 3; do
        { time "$netc" --emit cuda --target cuda --arch sm_90 "${options[@]}" >"$out/text"; } 2>>"$out/times.$layers"
    done
    text=$(awk '{ print $1 + $2 }' "$out/times.$layers" | sort -g | head -1)
    printf '%3d layers: text %.2f s, %d kernels, %d KB' "$layers" "$text" \
        "$(grep -c '^extern "C"' "$out/text")" "$(($(wc -c <"$out/text") / 1024))"
    if [ "${NVRTC:-1}" = 1 ]; then
        "$netc" inspect "${options[@]}" --cards --target sm_90 --cache-dir '' -q >"$out/cards"
        awk '$1 ~ /^[0-9]+$/ && NF == 9 { s += $8 } END { printf ", NVRTC %.1f s", s }' "$out/cards"
    fi
    if [ -n "$device" ]; then
        "$netc" bench "${options[@]}" -D batch=4 -e train --device "$device" --compiles 3 --repeats 1 --steps 1 >"$out/bench"
        awk '/compile, (cold|warm)/ { printf ", %s", $0 }' "$out/bench"
    fi
    echo
done
