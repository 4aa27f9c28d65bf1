#!/bin/bash
# Products with one row as sums, weights prepared, caches kept in 16 bits, of states only what changes written, of
# attention only what a position or a length leaves: at sizes that nobody chose, on the device of the host and on the CPU,
# against the evaluator, which does none of it. Another day, others.
. "$(dirname "$0")/../lib.sh"
needs_shim
RANDOM=$SEED
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
precision=(f32 tf32 bf16 f16)
check() { today || local -x NETC_CHECK_FUSED=1; LD_LIBRARY_PATH=$BUILD/shim expect 0 worst "$NETC" check "$ROOT/tests/shim/net/$1.net" --cache-dir '' --no-library "${@:2}"; }
for round in 0 1 2 3; do
    any n 16 400; any k 16 300; any b 1 4; any h 1 4; any t 2 90; any d 1 40
    [ $((round % 2)) = 0 ] && k=$((k / 8 * 8)) d=$(((d + 7) / 8 * 8)) # rows that vectors fit, too
    sizes="-D n=$n -D k=$k -D b=$b -D h=$h -D t=$t -D d=$d"
    check vectors --device cuda:0 $sizes --precision "${precision[round]}"
    check updates --device cuda:0 -D t=$t -D d=$d --precision "${precision[round]}"
    check updates --device cpu -D t=$t -D d=$d
done
# Rows so long that a block reads one, several products a launch.
any n 132 160; any k 512 650
check long_vectors --device cuda:0 -D n=$n -D k=$((4 * k)) --precision "${precision[2 + k % 2]}"
# Large states that change in a part and are read whole; masks that end where only the run knows.
any n 1 40; any context 1024 1100
check cache --device cuda:0 -D n=$n -D context=$context --precision bf16
check cache --device cpu -D n=$n -D context=$context
for p in bf16 f32; do
    any n 1 150; any context 1 200; any d 1 64 # heads of any length, to which zeros are added
    check attention_length --device cuda:0 -D n=$n -D context=$context -D d=$d --precision $p
    any n 32 120; any m 32 120; any d 1 70; any e 1 70
    check attention_heads --device cuda:0 -D n=$n -D m=$m -D d=$d -D e=$e --precision $([ $p = f32 ] && echo tf32 || echo bf16)
done
# Sums of zeros would be found.
NETC_CHECK_FUSED=1 SHIM_CUT='= nc_fma(=>= 0.0f * nc_fma(' LD_LIBRARY_PATH=$BUILD/shim expect 1 WRONG \
    "$NETC" check "$ROOT/tests/shim/net/vectors.net" --device cuda:0 --cache-dir '' --no-library
# Many tiny matrices are multiplied by sums, too.
NETC_CHECK_FUSED=1 LD_LIBRARY_PATH=$BUILD/shim expect 0 "kernels on cuda:0" "$NETC" check "$ROOT/tests/shim/net/tiny_products.net" \
    --device cuda:0 --cache-dir '' -D n=$((1024 + RANDOM % 300)) -D m=$((2 + RANDOM % 7)) -D k=$((2 + RANDOM % 7)) -D p=$((2 + RANDOM % 7))
finish
