#!/bin/bash
# A kernel's loops are a function that no compiler looks into at its call (gcc 12.2 drops calls of some that it
# takes for functions that write nothing), and an object says which compiler made it.
. "$(dirname "$0")/../lib.sh"

cat >back.net <<'N'
model m() {
    x = cast(iota([4, 6]), f32) + 1
    return a = x + reverse(x, 0), b = reverse(reverse(x, 0), 1) * x, c = reverse(transpose(x), 1)
}
N
"$NETC" --emit c back.net >back.c
bodies=$(grep -c ' [a-z][a-z0-9_]*_[0-9a-f]\{8\}_[0-9]*(void \*arg, long begin, long end)$' back.c)
[ "$bodies" -gt 0 ] && [ "$bodies" = "$(grep -c '^NC_BODY void .*(void \*arg, long begin, long end)$' back.c)" ] && pass ||
    fail "not every body is an NC_BODY: $(grep ' [a-z][a-z0-9_]*_[0-9a-f]\{8\}_[0-9]*(void \*arg, long begin, long end)$' back.c)"
# ... and an index made of a condition is one that no compiler looks through: gcc 12.2 reads other places.
cat >place.net <<'N'
model m(x: f32[2, 16]) {
    k = cast(gt(x, 0.25), u32)
    n = 1 - cast(lt(x, 0.25), i32)
    return a = gather(x, k, 1), b = gather(k, k % 2, 1), c = gather(x, n, 1), d = gather(x, cast((x > 0) and (x < 0.5), i32), 0)
}
N
"$NETC" --emit c place.net >place.c
[ "$(grep -c '\[.*nc_place(' place.c)" -ge 4 ] && pass || fail "an index of a condition without nc_place: $(grep 'x_in\[' place.c)"
for cc in gcc clang; do
    command -v $cc >/dev/null || { skip "no $cc"; continue; }
    expect 0 "" env CC=$cc "$NETC" check place.net --device cpu --cache-dir ''
done
# A function of many sines calls them, since gcc's time grows with the square of a loop's length; of few, it has
# them inlined.
cat >waves.net <<'N'
const count = 12
model m(x: f32[64, 40]) {
    y = zeros(shape(x))
    for k in 0..count { y = 0.9 * y + sin(x * (k + 1)) }
    return y, d = grad(sum(square(y)), x), total = sum(cos(y), 0)
}
N
"$NETC" --emit c waves.net >waves.c
[ "$(grep -c '= nc_sin_called(' waves.c)" -ge 12 ] && pass || fail "twelve sines are not called: $(grep 'nc_sin' waves.c)"
"$NETC" --emit c waves.net -D count=2 >waves.c
[ "$(grep -c '= nc_sin(' waves.c)" -ge 2 ] && ! grep -q '= nc_[a-z]*_called(' waves.c && pass || fail "two sines are called"
for cc in gcc clang; do
    command -v $cc >/dev/null || { skip "no $cc"; continue; }
    expect 0 "" env CC=$cc "$NETC" check waves.net --device cpu --cache-dir ''
    expect 0 "CPU kernels: compiled by" env CC=$cc "$NETC" run -v --device cpu back.net --cache-dir ''
    grep -qi "compiled by .*$cc" "$W/.out" && pass || fail "another compiler than $cc: $(head -3 "$W/.out")"
done
finish
