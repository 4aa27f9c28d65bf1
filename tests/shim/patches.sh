#!/bin/bash
# Convolutions of few channels, whose windows are stored (passes/patches.c), and their gradients: random sizes, in one to three dimensions.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
if ! command -v g++ >/dev/null && ! command -v "${SHIM_CXX:-}" >/dev/null; then
    skip "no g++: the CUDA text cannot be run on the host"
    finish
fi
export LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=${SEED:=$((10#$(date +%j)))} # another day, other sizes
