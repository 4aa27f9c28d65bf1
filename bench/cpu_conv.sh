#!/bin/bash
# Training steps of convolutional networks on the CPU beside JAX, f32: samples/mnist/lenet.net and
# samples/cifar10/resnet18.net.
#
#   bench/cpu_conv.sh [BUILD [NAME...]]   after `make`; names: lenet (batch 128), resnet18 (batch 8); some three minutes.
#                                         Results: a table, and JSON lines added to bench/results/cpu_conv.jsonl
#
# The runs of netc and of JAX take turns, so that other work on the machine falls on both; each row is the median of ROUNDS
# (5) of them. PEER_PYTHON: a Python with jax (default python3).
set -u
cd "$(dirname "$0")/.."
. bench/lib.sh
build=${1:-build} names=("${@:2}")
beside_jax cpu_conv
[ ${#names[@]} -gt 0 ] || names=(lenet resnet18)

model() { case $1 in lenet) echo samples/mnist/lenet.net ;; resnet18) echo samples/cifar10/resnet18.net ;; esac; }
batch() { case $1 in lenet) echo 128 ;; *) echo 8 ;; esac; }

ours() { # NAME REPEATS: microseconds of a step, bytes of temporaries
    "$netc" bench "$(model "$1")" -D batch="$(batch "$1")" --entry train --device cpu --compiles 0 --repeats "$2" -q --json |
        sed -n 's/.*train: \(step\|temporaries\)","value":\([0-9.e+]*\).*/\1 \2/p'
}

for name in "${names[@]}"; do
    [ -n "$(model "$name")" ] || { echo "there is no network '$name': lenet, resnet18" >&2; exit 2; }
    ours "$name" 1 >/dev/null || exit 1 # compiled
    for ((round = 0; round < ${ROUNDS:-5}; round++)); do
        ours "$name" 9 >"$out/last" || exit 1
        sed -n 's/^step //p' "$out/last" >>"$out/$name.ours"
        [ -z "$py" ] || "$py" bench/peers/conv_train_jax.py "$name" "$(batch "$name")" 9 >>"$out/$name.jax" || exit 1
    done
    peer=$([ -z "$py" ] || median <"$out/$name.jax")
    record "training step of $name, batch $(batch "$name"), CPU" "$(median <"$out/$name.ours")" us "bench/cpu_conv.sh ($name)" \
        ${peer:+JAX} ${peer:+"$jax_version"} ${peer:+"$peer"}
    record "... its temporaries" "$(sed -n 's/^temporaries //p' "$out/last")" bytes "bench/cpu_conv.sh ($name)"
done
