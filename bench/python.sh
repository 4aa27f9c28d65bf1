#!/bin/bash
# The cost of a call of four arguments from Python, beside the same through the C API, by turns.
# usage: bench/python.sh BUILD [DEVICE]; prints medians of five runs, of each the least of 20 rounds, and their ratios.
set -e
cd "$(dirname "$0")/.."
BUILD=${1:-build} DEVICE=${2:-cpu} PYTHON=${PYTHON:-python3}
make --no-print-directory BUILD="$BUILD" PYTHON="$PYTHON" python "$BUILD/libnetc.a" >/dev/null
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT
printf 'model four(a: f32[4], b: f32[4], c: f32[4], d: f32[4]) {\n    return y = a + b + c + d\n}\n' > "$W/four.net"
${CC:-cc} -O2 -I. bench/python.c "$BUILD/libnetc.a" -o "$W/four" -ldl -lm -lpthread -lz
for i in 1 2 3 4 5; do
    echo "$("$W/four" "$W/four.net" "$DEVICE") $(PYTHONPATH=$BUILD/python "$PYTHON" bench/python.py "$W/four.net" "$DEVICE")"
done > "$W/rows"
median() { awk -v k="$1" '{ print $k }' "$W/rows" | sort -n | sed -n 3p; }
awk -v c="$(median 1)" -v e="$(median 2)" -v m="$(median 3)" 'BEGIN {
    printf "%-34s %8.0f ns\n", "C API: four binds, run, read", c
    printf "%-34s %8.0f ns  %.2f of it, %.0f ns more\n", "entry(a=, b=, c=, d=)", e, e / c, e - c
    printf "%-34s %8.0f ns  %.2f of it, %.0f ns more\n", "m(a=, b=, c=, d=)", m, m / c, m - c }'
