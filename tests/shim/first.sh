#!/bin/bash
# The first few of sorted rows (passes/first_sorted.c) are those of the whole sort to the bit, on the device of the host and on the CPU;
# and the evaluator agrees. Sizes that nobody chose: rows of one warp and of several, on devices of one multiprocessor and of many.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/sort_first.net
cat >drawn.net <<'N'
dim n = 257
dim rows = 9
dim k = 32
fn numbers(x) { return where(x == x, x, 777) } # (a sort in registers makes all NaN one)
model drawn() {
    x = uniform([rows, n], -1.5, 1.5)
    odd = where(x > 1.2, 0 / (x - x), where(x < -1.2, inf, where(x > 1, -inf, where(x > 0.5, x * 0, where(x < -0.5, -x * 0, x)))))
    half = cast(odd, bf16)
    d = cast(odd, f64) * 3
    i = cast(floor(x * 4), i32)
    return a = numbers(sort(odd)[:, :k]), b = argsort(odd)[:, :k], c = numbers(sort(odd, descending = true)[:, :k]), e = argsort(odd, descending = true)[:, :k],
           f = numbers(sort(half)[:, :k]), g = argsort(half, descending = true)[:, :k], o = numbers(sort(d)[:, :k]), p = argsort(d, descending = true)[:, :k],
           q = argsort(i)[:, :k], r = sort(i, descending = true)[:, :k], s = argsort(i > 0, descending = true)[:, :k], t = numbers(sort(odd, 1)[:, 1:k + 1:2])
}
N
needs_shim
export LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
RANDOM=$SEED # another day, other sizes
expect 0 "" "$NETC" drawn.net -o model.bin --target cuda --dump dump -q
ls dump | grep -q first_sorted && pass || fail "the pass changed nothing"
values() { # FILE.npz OPTIONS...
    local file=$1 name outputs=(); shift
    for name in a b c e f g o p q r s t; do outputs+=(-o "$name=$file"); done
    expect 0 "" "$NETC" run -q drawn.net --cache-dir '' "$@" "${outputs[@]}"
}
# An odd number of elements that several warps hold, of keys of one and two bytes.
checked() { today || local -x NETC_CHECK_FUSED=1; expect 0 "kernels on $1" "$NETC" check "$net" --cache-dir '' --device "$@"; }
SHIM_UNITS=1 checked cuda:0 -D n=989 -D rows=4 -D k=45
# Six of f64 on the CPU, which gcc 12 copied by a misaligned load.
checked cpu -D n=3483 -D rows=3 -D k=6
for most in 200 1500 6000; do
    n=$((64 + RANDOM % most))
    k=$((1 + RANDOM % (n / 2 < 128 ? n / 2 - 1 : 127)))
    sizes="-D n=$n -D rows=$((1 + RANDOM % 7)) -D k=$k"
    units=$((RANDOM % 2 ? 1 : 132))
    echo "SEED=$SEED: $sizes, $units multiprocessors"
    for device in cuda:0 cpu; do
        # shellcheck disable=SC2086
        SHIM_UNITS=$units values first.npz --device $device $sizes
        # shellcheck disable=SC2086
        SHIM_UNITS=$units values all.npz --device $device $sizes --skip-passes first_sorted
        cmp first.npz all.npz && pass || fail "SEED=$SEED: other bits on $device: $sizes"
        # shellcheck disable=SC2086
        SHIM_UNITS=$units checked $device $sizes
        ! grep -qE 'WRONG|BAD' "$W/.out" && pass || fail "SEED=$SEED: wrong on $device: $(cat "$W/.out")"
    done
done
finish
