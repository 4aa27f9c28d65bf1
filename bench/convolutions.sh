#!/bin/bash
# Convolutions in bf16, forward and both gradients, beside cuDNN's best (PyTorch, benchmark mode, channels last): those of
# ResNet-18 for CIFAR-10 at batch 512, and sizes that nobody listed. About 150 s on an H200.
#
#   bench/convolutions.sh [PART...]    parts: resnet unlisted (default: both); strided: those of both with a stride, and some more
#
# A line each: TFLOP/s of netc and of cuDNN (of what the convolution is, whatever a kernel does), microseconds, how many
# times as fast netc is. netc: executions in a row of an entry that is one convolution, all kernels that it takes, no
# library. cuDNN: replays of a CUDA graph. NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3), PEER_SECONDS (300) a part, OUT
# (build/convolutions): logs. SMALL=1: tiny batches, to try it out.
set -u
cd "$(dirname "$0")/.."
export NETC=${NETC:-build/netc} DEVICE=${DEVICE:-cuda:0} OUT=${OUT:-build/convolutions}
mkdir -p "$OUT"

resnet="h=32,c=3,o=64 h=32,c=64,o=64 h=32,c=64,o=128,stride=2 h=32,c=64,o=128,k=1,stride=2 h=16,c=128,o=128
    h=16,c=128,o=256,stride=2 h=16,c=128,o=256,k=1,stride=2 h=8,c=256,o=256 h=8,c=256,o=512,stride=2
    h=8,c=256,o=512,k=1,stride=2 h=4,c=512,o=512"
unlisted="batch=256,h=28,c=24,o=24 batch=256,h=28,c=80,o=80 batch=256,h=28,c=96,o=96 batch=256,h=14,c=200,o=200
    batch=128,h=56,c=64,o=64 batch=256,h=28,c=128,o=128 batch=256,h=14,c=256,o=256 batch=256,h=7,c=512,o=512
    batch=256,h=14,c=256,o=1024,k=1 batch=128,h=28,c=64,o=64,k=5 batch=64,h=28,c=64,o=64,k=7
    batch=128,h=56,c=64,o=128,stride=3 batch=128,h=28,c=128,o=128,dilation=2 batch=16,depth=16,h=28,c=64,o=64
    batch=256,h=28,c=128,o=128,groups=128 batch=256,h=14,c=384,o=384,k=5,groups=384 batch=256,h=28,c=128,o=128,groups=4"
strided="$(tr -s ' ' '\n' <<<"$resnet $unlisted" | grep stride | tr '\n' ' ') h=16,c=128,o=128,k=5,stride=2 batch=256,h=14,c=96,o=192,stride=2
    batch=256,h=28,c=128,o=256,k=2,stride=2"

ours() { # WORD REPEATS: a line a direction: word, direction, microseconds
    local word=$1 options
    IFS=, read -ra options <<<"$word"
    timeout 90 "$NETC" bench bench/kernels/convolution.net "${options[@]/#/-D}" --device "$DEVICE" --compiles 0 --no-library \
        --tune-file '' --repeats "$2" --json 2>"$OUT/$word.err" >"$OUT/$word.jsonl" || echo "$word: $(tail -1 "$OUT/$word.err")" >&2
    sed -n "s/.* \([a-z]*\): step\",\"value\":\([^,]*\),.*/$word \1 \2/p" "$OUT/$word.jsonl"
}
export -f ours

part() { # NAME WORD...
    local name=$1 word file=$OUT/$1; shift
    [ -n "${SMALL:-}" ] && set -- "${@/#/batch=2,}" && set -- "${@/batch=2,batch=*([0-9]),/batch=2,}"
    printf '%s\n' "$@" | xargs -P 8 -I{} bash -c 'ours {} 1' >/dev/null # compiled, at once
    for word; do ours "$word" 9; done >"$file.netc"
    timeout "${PEER_SECONDS:-300}" "${PEER_PYTHON:-python3}" bench/peers/convolutions_torch.py "$@" >"$file.torch" 2>"$file.err" ||
        echo "PyTorch did not finish: $(tail -1 "$file.err")"
    sed 's/.*"name": "\([^"]*\)", "mode": "\([^"]*\)", "seconds": \([^,}]*\).*/\1 \2 \3/' "$file.torch" | awk -v name="$name" '
        function flops(word,    v, n, i, pair, places) {
            split("", v); v["batch"] = 512; v["k"] = 3; v["stride"] = v["dilation"] = v["groups"] = 1
            n = split(word, pair, ",")
            for (i = 1; i <= n; i++) v[substr(pair[i], 1, index(pair[i], "=") - 1)] = substr(pair[i], index(pair[i], "=") + 1)
            reach = v["dilation"] * (2 * int(v["k"] / 2) - v["k"] + 1) - 1 # what the padding is more than the window
            places = (int((v["h"] + reach) / v["stride"]) + 1) ^ 2 * v["k"] ^ 2
            if (v["depth"]) places *= (int((v["depth"] + reach) / v["stride"]) + 1) * v["k"]
            return 2 * v["batch"] * places * v["c"] / v["groups"] * v["o"]
        }
        FILENAME == "-" { peer[$1 " " $2] = $3 * 1e6; next }
        !begun++ { printf "%-44s %-8s %8s %8s %9s %9s %6s\n", name, "", "TFLOP/s", "cuDNN", "us", "cuDNN", "ratio" }
        {
            f = flops($1) / 1e6; p = peer[$1 " " $2]
            if ($1 ~ /,c=3,/ && $2 == "dx") next # of images, which nobody asks for
            printf "%-44s %-8s %8.1f %8s %9.2f %9s %6s\n", $1, $2, f / $3, p ? sprintf("%.1f", f / p) : "-", $3,
                p ? sprintf("%.2f", p) : "-", p ? sprintf("%.2f", p / $3) : "-"
            if (!p) next
            r = p / $3; n++; at7 += r >= 0.7; at8 += r >= 0.8; at9 += r >= 0.9; at10 += r >= 1
        }
        END { printf "%s: of %d beside cuDNN %d at 1.0 or more, %d at 0.9, %d at 0.8, %d under 0.7\n", name, n, at10, at9, at8, n - at7 }
    ' - "$file.netc" | tee "$file.table"
}

shopt -s extglob
# shellcheck disable=SC2086
for name in ${*:-resnet unlisted}; do
    case $name in
        resnet) part resnet $resnet ;;
        unlisted) part unlisted $unlisted ;;
        strided) part strided $strided ;;
        *) echo "there is no part '$name': resnet, unlisted, strided"; exit 2 ;;
    esac
done
