#!/bin/bash
# `netc check` on every sample and on a model of every primitive op.
. "$(dirname "$0")/../lib.sh"
device=${CHECK_DEVICE:-cpu}
for f in "$ROOT"/samples/*/*.net "$ROOT"/tests/net/check/*.net "$ROOT"/tests/net/fuse/*.net; do
    expect 0 "" "$NETC" check "$f" --device "$device"
    ! grep -qE 'WRONG|BAD' "$W/.out" && pass || fail "$f: $(grep -E 'WRONG|BAD' "$W/.out" | head -3)"
done
# No op of the table is missing from the model, but the one no .net text leads to, parameters of
# regions (dumps write them in the region's head) and the mark of an error.
P=$ROOT/tests/net/check/primitives.net
"$NETC" --emit ir "$P" > ir.net; "$NETC" --emit grad "$P" > grad.net
for op in $(grep -oE '^(EW|RE|OP)\([a-z_0-9]+' "$ROOT/ir/ops.def" | cut -d'(' -f2); do
    case $op in dynamic_slice|region_param|poison) continue ;; esac
    grep -qE "(= |^ *)$op\(" ir.net grad.net && pass || fail "primitives.net has no '$op'"
done
finish
