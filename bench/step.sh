#!/bin/bash
# Microseconds of a training step by the ways of enqueueing it, as JSON lines. Needs a GPU and `make unit`.
#
#   bench/step.sh [BUILD]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
libs=("$build"/lib_{lib,frontend,passes,runtime,codegen,ir,base}.a)
step=$build/step
${CC:-cc} -std=gnu17 -D_GNU_SOURCE -O2 -fwrapv -I. bench/step.c -Wl,--start-group "${libs[@]}" -Wl,--end-group \
    -ldl -lm -lpthread -lz -o "$step"
for options in "bench/mlp.net" "bench/mlp.net first=512 second=512 batch=512" samples/mnist/mlp.net; do
    for precision in tf32 f32; do
        for reuse in "" --no-reuse; do
            # shellcheck disable=SC2086
            "$step" $options $precision $reuse
        done
    done
done
