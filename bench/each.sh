#!/bin/bash
# What is computed for each example apart (bench/each.net): loops computed for all iterations at once, the same loops left as they are,
# and jax.vmap, in one run: microseconds.
#
#   bench/each.sh [NAME...]     default: all
#
# NETC (build/netc), DEVICE (cuda:0), PEER_PYTHON (python3; '' for no peer), OUT (build/each). Products of f32 are TF32 for both.
set -u
cd "$(dirname "$0")/.."
netc=${NETC:-build/netc} device=${DEVICE:-cuda:0} OUT=${OUT:-build/each} python=${PEER_PYTHON-python3}
mkdir -p "$OUT"
names=${*:-$(sed -n 's/^model \([a-z_0-9]*\)(.*/\1/p' bench/each.net)}
step() { # NAME OPTION...
    timeout 120 "$netc" bench bench/each.net -e "$1" --precision tf32 --device "$device" --tune-file '' --compiles 0 --repeats 9 --json \
        "${@:2}" 2>"$OUT/$1.err" | sed -n 's/.*: step","value":[ ]*\([0-9.e+-]*\).*/\1/p'
}
for name in $names; do echo "$name at-once $(step "$name")"; echo "$name loop $(step "$name" --skip-passes vectorize,fission)"; done >"$OUT/netc"
: >"$OUT/peer"
[ -z "$python" ] || JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32 timeout 500 "$python" bench/peers/each_jax.py $names >"$OUT/peer" 2>"$OUT/peer.err"
awk '{ t[$1, $2] = $3; if ($2 == "at-once") order[n++] = $1 }
     END { for (i = 0; i < n; i++) {
         m = order[i]; a = t[m, "at-once"]; if (!a) a = 1e9
         printf "%-22s %10.1f us   as a loop %10.1f us (%.1f times)   jax %10.1f us (%.2f times)\n", m, a, t[m, "loop"], t[m, "loop"] / a, t[m, "jax"], t[m, "jax"] / a
     } }' "$OUT/netc" "$OUT/peer"
for name in $names; do [ -n "$(sed -n "s/^$name at-once //p" "$OUT/netc")" ] || echo "$name: $(tail -2 "$OUT/$name.err")"; done
