#!/bin/bash
# Ways that C goes for speed, against the evaluator at sizes of the day's seed: values that wait where results are stored
# (kept.net), operands that are turned by tiles (turned.net), reductions in turns (apart.net),
# products with a short side (thin.net), maps by levels and random words of neighbours (levels.net).
. "$(dirname "$0")/../lib.sh"
cat >cc <<'CC'
#!/bin/sh
# The compiler; with $CUT, of files with a mistake.
for file; do
    case $file in *.c) [ -z "$CUT" ] || sed -i "$CUT" "$file" ;; esac
done
exec ${REAL_CC:-cc} "$@"
CC
chmod +x cc
RANDOM=$SEED # another day, other sizes
echo "SEED=$SEED"
check() { # EXIT TEXT MODEL DEFINITION...
    CC=$W/cc expect "$1" "$2" "$NETC" check "${@:3}" --device cpu --cache-dir '' --seed "$RANDOM"
}
right() { # NAME DEFINITION...
    check 0 fused "$ROOT/tests/modes/$1.net" "${@:2}"
    ! grep -q WRONG "$W/.out" && pass || fail "wrong: $* $(grep WRONG "$W/.out")"
}
OMP_NUM_THREADS=$((RANDOM % 2 * 2 + 1)) # rows of all tasks at once, or not
export OMP_NUM_THREADS
right kept -D rows=$((RANDOM % 500 + 512)) -D cols=$((RANDOM % 50 + 2))
right turned -D n=$((RANDOM % 90 + 3)) -D m=$((RANDOM % 150 + 3))
right apart -D n=$((RANDOM % 9 + 2)) -D rows=$((RANDOM % 20 + 1)) -D long=$((RANDOM % 400 + 100))
right thin -D m=$((RANDOM % 200 + 2)) -D n=$((RANDOM % 40 + 2)) -D k=$((RANDOM % 8 + 1)) -D few=$((RANDOM % 15 + 2))
right levels -D n=$((RANDOM % 1200 + 10)) -D m=$((RANDOM % 20 + 1))
cut() { # MODEL SED
    echo "model one$1" >one.net
    CUT=$2 check 1 WRONG one.net
}
cut '(x: f32[9, 600]) { return y = exp(x - max(x, 0)) / sum(exp(x - max(x, 0)), 0) }' 's/last = next \* 32/last = next * 31/'
cut '(x: f32[40, 70]) { return y = transpose(x) }' 's/cols - N : k/cols - N - 1 : k/'
cut '(x: f32[3, 4, 300]) { return y = max(x, [0, 2]) }' 's/k < 64; k++) \(\w*\)_last/k < 8; k++) \1_last/'
cut '(x: f32[999]) { return y = x + uniform([999], 0, 1) }' 's/+ 4 \* (uint64_t)v/+ 5 * (uint64_t)v/' # words of others
finish
