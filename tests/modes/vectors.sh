#!/bin/bash
# Products as C for processors with other vectors than this one's: 64, 32 and 16 bytes (NC_TILE of codegen/prelude/c_tail.h). Each
# width is checked against the evaluator, over sizes that tiles do not divide and some that nobody chose.
. "$(dirname "$0")/../lib.sh"
cat >products.net <<'NET'
const m = 37
const n = 45
const k = 133
model narrow(a: bf16[m, k], b: bf16[k, n]) { return y = matmul(a, b) }
model half(a: f16[m, k], b: f16[k, n]) { return y = matmul(a, b) }
model computed(a: f32[m, k], b: f32[k, n]) { return y = matmul(sin(a), exp(b)) + 1 }
model wide(a: f64[m, k], b: f64[n, k]) { return y = matmul(sin(a), transpose(b)) }
model whole(a: i32[m, k], b: i32[k, n]) { return y = matmul(a, b) }
model long(a: i64[m, k], b: i64[k, n]) { return y = matmul(a, b) }
model plain(a: u32[m, k], b: u32[k, n]) { return y = matmul(a, b) }
NET
# The compiler (tests/cc_once.sh); with $CUT, of files in which one sum takes another row's operand.
cat >cc <<'CC'
#!/bin/sh
for file; do
    case $file in *.c) [ -z "$CUT" ] || sed -i 's/acc\[2\]\[1\] += x\[2\]/acc[2][1] += x[1]/' "$file" ;; esac
done
exec "$ONCE" "$@"
CC
chmod +x cc
export ONCE=$ROOT/tests/cc_once.sh KERNELS=$W/kernels
RANDOM=$SEED # another day, other sizes
sizes="-D m=$((1 + RANDOM % 70)) -D n=$((1 + RANDOM % 70)) -D k=$((1 + RANDOM % 300))"
echo "SEED=$SEED: $sizes"
check() { # FLAGS EXIT TEXT DEFINITION...
    CC_FLAGS=$1 CC=$W/cc expect "$2" "$3" "$NETC" check products.net --device cpu --cache-dir '' "${@:4}"
}
widths() { # FLAGS
    local size
    for size in '' "$sizes"; do
        # shellcheck disable=SC2086
        check "$1" 0 'plain    fused' $size
        ! grep -q WRONG "$W/.out" && pass || fail "wrong: $(grep WRONG "$W/.out")"
    done
}
widths ''
CUT=1 check '' 1 WRONG
case $(uname -m) in
x86_64)
    widths -mno-avx512f
    widths -mno-avx
    ;;
*) skip "vectors of other widths are of x86-64" ;;
esac
finish
