#!/bin/bash
# Sums by index on a GPU whose updates go to one place in part: edges of a graph with a hub, tokens with padding. Each
# beside the same with uniform indices; their kernels' times, with another build's where one is given.
#
#   bash bench/hot_sums.sh [OLD_NETC]
cd "$(dirname "$0")/.." || exit 1
while read -r entry places count width hot; do
    for share in 0 "$hot"; do
        for netc in ${1:+"$1"} build/netc; do
            echo "== $entry: $count x $width into $places, $share % to one: $netc"
            "$netc" profile bench/hot_sums.net -e "$entry" -D places="$places" -D count="$count" \
                -D width="$width" -D hot="$share" --tune-file '' | grep -E ' us|scatter_add'
        done
    done
done <<'LINES'
sums 100000 1000000 64 20
layers 100000 1000000 64 20
sums 8192 40960 1024 60
sums 50257 16384 768 50
LINES
