#!/bin/bash
# Kernels taken out, edited, compiled in the generated ones' place, checked; tuning for CUDA. What runs,
# runs on a device made of the host (tests/shim).
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'NET'
use nn
model m(x: f32[6, 40], label: u8[6] in 0..40) {
    return loss = cross_entropy(layer_norm(x, affine = false), label), z = exp(transpose(x))
}
NET
name=$("$NETC" inspect m.net --knobs --target cuda | sed -n 's/^kernel \(loss[^ /]*\) .*/\1/p' | head -1)
[ -n "$name" ] || fail "no kernel of the loss"
edited=m.net.kernels/$name.cu

expect 1 "did you mean $name?" "$NETC" inspect m.net --eject "${name%?}x"
expect 0 "wrote $edited" "$NETC" inspect m.net --eject "$name"
expect 1 "already exists" "$NETC" inspect m.net --eject "$name"
grep -q '^// contract: read f32\[6, 40\]; ' "$edited" && pass || fail "no contract: $(head -7 "$edited")"
grep -q '^// launch: grid [0-9]* 1 1, block [0-9]* 1 1, shared 0$' "$edited" && pass || fail "no launch"
cp "$edited" as_generated.cu
expect 0 "note: edited by hand, from m.net.kernels: $name" "$NETC" --emit cuda m.net
sed -i 's|^extern "C"|// a line of my own\n&|' "$edited"
expect 0 "// a line of my own" "$NETC" --emit cuda m.net
expect 0 "// a line of my own" "$NETC" inspect m.net --target cuda "$name"
expect 0 "" "$NETC" --emit c m.net # another target has kernels of its own

# -- what does not fit
sed 's/\[6, 40\]/[6, 41]/' m.net >other.net; sed -i 's/0\.\.40/0..41/' other.net; cp -r m.net.kernels other.net.kernels
expect 1 "eject the kernel that does this now" "$NETC" --emit cuda other.net
# Of two entries, one is compiled: a kernel of the other one is no error, one of neither is, whatever is compiled.
cat >two.net <<'NET'
use nn
model m(x: f32[6, 40], label: u8[6] in 0..40) {
    return loss = cross_entropy(layer_norm(x, affine = false), label), z = exp(transpose(x))
}
model other(x: f32[6, 40]) { return y = tanh(x) }
NET
cp -r m.net.kernels two.net.kernels
expect 0 "note: edited by hand, from two.net.kernels: $name" "$NETC" --emit cuda two.net --entries m
expect 0 "" "$NETC" --emit cuda two.net --entries other
grep -q "note:\|$name" "$W/.out" && fail "a kernel of another entry: $(grep -m2 "note:\|$name" "$W/.out")" || pass
sed -i 's/\[6, 40\]/[6, 41]/; s/0\.\.40/0..41/' two.net
for entry in m other; do expect 1 "the model has no kernel '$name' any more" "$NETC" --emit cuda two.net --entries $entry; done
holds "eject the kernel that does this now"
printf 'model bad(x: f32[4, 3]) { return y = x + ones([7]) }\n' >>two.net
expect 0 "note: two.net.kernels/$name.cu is not used: what is run here has no kernel '$name'" "$NETC" --emit cuda two.net --entries other
sed -i 's/^\/\/ contract: .*/\/\/ contract: read f32[7, 40]/' "$edited"
expect 1 "the kernel is called with other arguments now" "$NETC" --emit cuda m.net
holds "written for: read f32[7, 40]"
sed '/^\/\/ contract/d' as_generated.cu >"$edited"
expect 1 "nothing says what it replaces" "$NETC" --emit cuda m.net
sed 's/^\/\/ launch: .*/\/\/ launch: many/' as_generated.cu >"$edited"
expect 1 "its launch line is not" "$NETC" --emit cuda m.net
for change in '/launch/s/block [0-9]* /block 2000 /' '/launch/s/grid [0-9]* /grid -1 /' '/launch/s/grid [0-9]* 1 /grid 1 65536 /' \
    '/launch/s/block [0-9]* /block 4294967297 /' '/launch/s/shared 0/shared -1/'; do
    sed "$change" as_generated.cu >"$edited"
    expect 1 "its launch is impossible" "$NETC" --emit cuda m.net
done
sed 's/$/\r/' as_generated.cu >"$edited" # as an editor elsewhere may save it
expect 0 "" "$NETC" --emit cuda m.net
sed 's/__global__/__device__/' as_generated.cu >"$edited"
expect 1 "it defines no kernel" "$NETC" --emit cuda m.net

# -- on a device
if ! command -v g++ >/dev/null || [ ! -e "$BUILD/shim/libcuda.so.1" ]; then
    skip "no g++: the CUDA text cannot be run on the host"
    finish
fi
on_shim() { LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} expect "$@"; }
sed 's|^extern "C"|// a line of my own\n&|' as_generated.cu >"$edited"
on_shim 0 "results agree" "$NETC" check m.net --device cuda:0 --kernel "$name"
holds "$edited"
sed 's/nc_log(\(.*\));/nc_log(\1) + 0.5f;/' as_generated.cu >"$edited"
cmp -s as_generated.cu "$edited" && fail "the text has no logarithm to spoil"
on_shim 1 "WRONG: its result differs" "$NETC" check m.net --device cuda:0 --kernel "$name"
on_shim 1 "WRONG" "$NETC" check m.net --device cuda:0
sed 's/^extern "C"/nonsense &/' as_generated.cu >"$edited"
on_shim 2 "kernel $name" "$NETC" check m.net --device cuda:0 --kernel "$name"
rm -r m.net.kernels
on_shim 1 "there is no kernel 'none'" "$NETC" check m.net --device cuda:0 --kernel none

# Each element is held to its own error: the smallest are wrong, by less than the largest may be.
echo 'model wide(x: f32[6, 40]) { return z = exp(40 * x) }' >wide.net
name=$("$NETC" inspect wide.net --knobs --target cuda | sed -n 's/^kernel \(z[^ /]*\) .*/\1/p' | head -1)
expect 0 "wrote" "$NETC" inspect wide.net --target cuda --eject "$name"
cp "wide.net.kernels/$name.cu" as_generated.cu
sed -i 's/= nc_exp(\(.*\));/= nc_exp(\1) + 100.0f;/' "wide.net.kernels/$name.cu"
cmp -s as_generated.cu "wide.net.kernels/$name.cu" && fail "the text has no exponential to spoil"
on_shim 1 "WRONG: its result differs from the evaluator's" "$NETC" check wide.net --device cuda:0 --kernel "$name"

# -- every knob's candidates run, agree, and the file is taken
export XDG_CACHE_HOME=$W/cache
on_shim 0 "launches to search" "$NETC" tune m.net --device cuda:0 --budget 1200
grep -q 'differs from\|does not compile' "$W/.out" && fail "a candidate: $(grep -m2 'differs\|compile' "$W/.out")" || pass
grep -q '^kernel .* @ host shim: ' m.net.tune && pass || fail "the file: $(cat m.net.tune)"
on_shim 0 "measured schedules for" "$NETC" check m.net --device cuda:0
grep -q WRONG "$W/.out" && fail "$(grep -m2 WRONG "$W/.out")" || pass
expect 0 "" "$NETC" --emit cuda m.net --locked
finish
