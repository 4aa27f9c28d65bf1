#!/bin/bash
# Values that are rounded before maxima of them are taken or they are joined (passes/early_casts.c) give the bits that they gave
# when they were rounded afterwards, on the device of the host. Sizes that nobody chose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/early_casts.net
needs_shim
RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
any n 1 3; any h 2 7; any c 1 24; any o 2 40
sizes="-D n=$n -D h=$((2 * h)) -D c=$c -D o=$o --precision $([ $((RANDOM % 2)) = 1 ] && echo bf16 || echo f16)"
echo "SEED=$SEED: $sizes"
values() { # FILE.npz ENTRY OPTIONS...
    local file=$1 entry=$2 name outputs=(); shift 2
    for name in $(results_of "$entry"); do outputs+=(-o "$name=$file"); done
    LD_LIBRARY_PATH=$SHIM expect 0 "" "$NETC" run -q "$net" --entry "$entry" --device cuda:0 --cache-dir '' --no-library "$@" "${outputs[@]}"
}
results_of() { case $1 in joined) echo y z ;; read_twice) echo y z all ;; gradients) echo loss g e ;; nested) echo y ;; esac; }
expect 0 "" "$NETC" "$net" -o model.bin --target cuda --dump dump -q --precision bf16
ls dump | grep -q early_casts && pass || fail "the pass changed nothing"
for entry in joined read_twice gradients nested; do
    # shellcheck disable=SC2086
    for options in "--precision bf16" "$sizes"; do
        values "early.$entry.npz" $entry $options
        values "late.$entry.npz" $entry $options --skip-passes early_casts
        cmp "early.$entry.npz" "late.$entry.npz" && pass || fail "$entry has other bits: $options"
    done
done
finish
