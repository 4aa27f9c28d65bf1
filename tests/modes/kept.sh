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
check() { # EXIT TEXT DEFINITION...
    CC=$W/cc expect "$1" "$2" "$NETC" check "$model" --device cpu --cache-dir '' --seed "$RANDOM" "${@:3}"
}
right() { # ROWS COLUMNS
    check 0 'long     fused' -D rows="$1" -D cols="$2"
    ! grep -q WRONG "$W/.out" && pass || fail "wrong: $(grep WRONG "$W/.out")"
}
OMP_NUM_THREADS=$((RANDOM % 2 * 2 + 1)) right "$((RANDOM % 500 + 512))" "$((RANDOM % 50 + 2))"
cat >one.net <<'NET'
use nn
model one(x: f32[9, 600]) { return y = softmax(x, 0) }
NET
model=one.net
CUT='s/const long last = next \* 32/const long last = next * 31/' check 1 WRONG # the last rows of a task
finish
