#!/bin/bash
# Products of one operand that become a single one (passes/join_products.c), compared with sums of products on the device of the host: every
# precision, with the library and generated kernels, sizes that nobody chose. Joined are those that may be, and no others.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/join_products.net
needs_shim
export LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
any="-D b=$((1 + RANDOM % 9)) -D t=$((2 + RANDOM % 40)) -D n=$((1 + RANDOM % 60)) -D d=$((1 + RANDOM % 40)) -D e=$((1 + RANDOM % 40))"
precisions=(f32 tf32 bf16 f16)
for options in "" "--no-library" "-D b=1 -D t=2 -D n=1" "$any" "$any --no-library" "-D n=32 -D d=16 -D e=8 --no-library"; do
    precision=${precisions[RANDOM % 4]}
    for entry in joined turned long short; do
        # shellcheck disable=SC2086
        expect 0 "by f32" "$NETC" run -q "$net" -e $entry --device cuda:0 --cache-dir '' --precision $precision $options
    done
    # shellcheck disable=SC2086
    expect 0 "by f32" "$NETC" run -q "$net" -e gradients --device cuda:0 --cache-dir '' --precision ${precisions[RANDOM % 2]} $options
done
expect 0 "" "$NETC" "$net" -o model.bin --target cuda --dump dump -q -D t=300
for entry in joined:2 gradients:2 turned:1 apart:0 frozen:0 long:0 short:1; do # weights, and biases if there are any
    n=$(awk "/^entry ${entry%:*} /{on=1;next} /^entry/{on=0} on" dump/*_join_products.net | grep -c ' = concat(')
    [ "$n" = "${entry#*:}" ] && pass || fail "${entry%:*}: $n tensors are joined, not ${entry#*:}"
done
finish
