#!/bin/bash
# tests/net/check/kept.net, whose values wait where results are stored, against the evaluator at sizes of the day's seed,
# with one thread, which takes as many rows at once as it can, or several.
. "$(dirname "$0")/../lib.sh"
model=$ROOT/tests/net/check/kept.net
cat >cc <<'CC'
#!/bin/sh
# The compiler; with $CUT, of files with a mistake.
for file; do
    case $file in *.c) [ -z "$CUT" ] || sed -i "$CUT" "$file" ;; esac
done
exec ${REAL_CC:-cc} "$@"
CC
chmod +x cc
RANDOM=${SEED:=$((10#$(date +%j)))} # another day, other sizes
echo "SEED=$SEED"
check() { # EXIT TEXT ROWS COLUMNS
    CC=$W/cc expect "$1" "$2" "$NETC" check "$model" --device cpu --cache-dir '' --seed "$RANDOM" -D rows="$3" -D cols="$4"
}
right() { # ROWS COLUMNS
    check 0 'long     fused' "$@"
    ! grep -q WRONG "$W/.out" && pass || fail "wrong: $(grep WRONG "$W/.out")"
}
OMP_NUM_THREADS=$((RANDOM % 2 * 2 + 1)) right "$((RANDOM % 500 + 512))" "$((RANDOM % 50 + 2))"
CUT='s/const long last = next \* 32/const long last = next * 31/' check 1 WRONG 600 9 # the last rows of a task
finish
