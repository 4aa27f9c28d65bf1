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
bodies=$(grep -c '(void \*arg, long begin, long end)$' back.c)
[ "$bodies" -gt 0 ] && [ "$bodies" = "$(grep -c '^NC_BODY void .*(void \*arg, long begin, long end)$' back.c)" ] && pass ||
    fail "not every body is an NC_BODY: $(grep '(void \*arg, long begin, long end)$' back.c)"
for cc in gcc clang; do
    command -v $cc >/dev/null || { skip "no $cc"; continue; }
    expect 0 "CPU kernels: compiled by" env CC=$cc "$NETC" run -v --device cpu back.net --cache-dir ''
    grep -qi "compiled by .*$cc" "$W/.out" && pass || fail "another compiler than $cc: $(head -3 "$W/.out")"
done
finish
