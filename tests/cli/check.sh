#!/bin/bash
# `netc check` on every sample and on a model of every primitive op.
. "$(dirname "$0")/../lib.sh"
device=${CHECK_DEVICE:-cpu}
for f in "$ROOT"/samples/*/*.net "$ROOT"/tests/net/check/*.net "$ROOT"/tests/net/fuse/*.net; do
    expect 0 "" "$NETC" check "$f" --device "$device"
    ! grep -qE 'WRONG|BAD' "$W/.out" && pass || fail "$f: $(grep -E 'WRONG|BAD' "$W/.out" | head -3)"
done
# The caller's options reach every build that is checked: each tells what it needs beyond the limit, the model's
# own first, and without 'fuse' the fused build needs what the model's own does.
needs() { # OPTION...: the bytes that 'm' needs in the model's own build, and fused, unfused, without library
    "$NETC" check needs.net --device "$device" --memory-limit 1000 "$@" 2>&1 |
        sed -n "s/^note: the temporaries of 'm' need \([0-9]*\) bytes, more than the limit of 1000/\1/p" | tr '\n' ' '
}
cat >needs.net <<'N'
use nn
model m(x: f32[64, 30]) {
    param w: f32[30] = 0.5
    y = tanh(softmax(x * w))
    return loss = sum(y * exp(y)), norm = sum(sqrt(y * y + 1), 0) * exp(max(y, 0))
}
N
read -r own fused unfused library <<<"$(needs)"
read -r own_skip fused_skip unfused_skip library_skip <<<"$(needs --skip-passes fuse)"
[ -n "$library" ] && [ "$fused" = "$own" ] && [ "$library" = "$own" ] && [ "$unfused" -gt "$own" ] && pass ||
    fail "of a limit the builds know: $own, $fused, $unfused, $library"
[ -n "$library_skip" ] && [ "$own_skip" -gt "$own" ] && [ "$fused_skip" = "$own_skip" ] && [ "$library_skip" = "$own_skip" ] && pass ||
    fail "of a pass left out the builds know: $own_skip, $fused_skip, $unfused_skip, $library_skip; with it $own"
# No op of the table is missing from the model, but the one no .net text leads to, parameters of
# regions (dumps write them in the region's head) and the mark of an error.
P=$ROOT/tests/net/check/primitives.net
"$NETC" --emit ir "$P" > ir.net; "$NETC" --emit grad "$P" > grad.net
for op in $(grep -oE '^(EW|RE|OP)\([a-z_0-9]+' "$ROOT/ir/ops.def" | cut -d'(' -f2); do
    case $op in dynamic_slice|region_param|poison) continue ;; esac
    grep -qE "(= |^ *)$op\(" ir.net grad.net && pass || fail "primitives.net has no '$op'"
done
finish
