#!/bin/bash
# Rows that are computed side by side as C (codegen/c/turn_c.c), against the evaluator: sizes around those of vectors
# and tasks, others by the day's seed, and vectors of other widths and another compiler's.
. "$(dirname "$0")/../lib.sh"
model=$ROOT/tests/net/check/short_rows.net
cat >cc <<'CC'
#!/bin/sh
# The compiler (tests/cc_once.sh); with $CUT, of files in which rows are turned into columns with a mistake.
for file; do
    case $file in *.c) [ -z "$CUT" ] || sed -i "$CUT" "$file" ;; esac
done
exec "$ONCE" "$@"
CC
chmod +x cc
export ONCE=$ROOT/tests/cc_once.sh KERNELS=$W/kernels CC_FLAGS='-O1 -fno-ivopts' # (vectors, in less time)
RANDOM=$SEED # another day, other sizes
echo "SEED=$SEED"
check() { # EXIT TEXT ROWS COLUMNS
    CC=$W/cc expect "$1" "$2" "$NETC" check "$model" --device cpu --cache-dir '' --seed "$RANDOM" -D rows="$3" -D cols="$4"
}
for size in '17 3' "$((RANDOM % 100 + 16)) $((RANDOM % 64 + 1))"; do
    # shellcheck disable=SC2086
    check 0 'marks    fused' $size
done
[ "$(uname -m)" != x86_64 ] || CC_FLAGS='-O1 -fno-ivopts -mno-avx' check 0 'marks    fused' 37 12
if command -v clang >/dev/null; then REAL_CC=clang check 0 'marks    fused' 66 10; else skip "no clang here"; fi
# Mistakes in the text, which show whatever the compiler makes of it: a third of its time without its own vectors.
export CC_FLAGS='-Og -fno-tree-vectorize -fno-openmp-simd'
CUT='s/cols - N : k/cols - N - (cols > 8) : k/' check 1 'assertion failed' 64 10  # the blocks at the edge
CUT='s/nc_stays_f(float best, float x) { return -(x <=/nc_stays_f(float best, float x) { return -(x </' check 1 'assertion failed' 64 10 # of equals the last
CUT='s/ | -(best != best); }/; }/' check 1 'assertion failed' 64 10 # the last NaN
finish
