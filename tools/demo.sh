#!/bin/bash
# make demo: trains the MNIST sample on the GPU, or else the CPU, on real digits where they are found,
# else on digits of our own generator. Prints the accuracy; exits non-zero when it is not learnt.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
dir=
for d in "${MNIST_DIR:-}" ../shared/data/mnist data/mnist; do
    [ -n "$d" ] && ls "$d"/train-images-idx3-ubyte* >/dev/null 2>&1 && dir=$d && break
done
if [ -z "$dir" ]; then
    dir=$build/digits
    echo "no MNIST found (set MNIST_DIR to use it); drawing digits into $dir"
    [ -e "$dir/t10k-labels-idx1-ubyte" ] || "$build/digits-gen" "$dir"
fi
file() { for f in "$dir/$1" "$dir/$1.gz"; do [ -e "$f" ] && echo "$f" && return; done; echo "$dir/$1"; }
"$build/netc" train samples/mnist/mlp.net --epochs 5 \
    --data image="$(file train-images-idx3-ubyte)" --data label="$(file train-labels-idx1-ubyte)" \
    --eval-data image="$(file t10k-images-idx3-ubyte)" --eval-data label="$(file t10k-labels-idx1-ubyte)" \
    --save "$build/mlp.safetensors" --log "$build/mlp.jsonl"
accuracy=$(sed -n 's/.*"eval_accuracy":\([0-9.]*\).*/\1/p' "$build/mlp.jsonl" | tail -1)
echo "test accuracy: $accuracy"
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a > 0.9) }'
