#!/bin/bash
# A disk with no room left, a small one mounted for the test: whatever is written says so, exits 2 and
# leaves the file that was there; a compile cache that cannot grow is done without.
. "$(dirname "$0")/../lib.sh"
if [ -z "${FULL_DISK:-}" ]; then
    if ! unshare -rm sh -c "mkdir -p '$W/small' && mount -t tmpfs -o size=96k none '$W/small'" 2>/dev/null; then
        skip "no disk can be mounted here (unshare -rm): full disks are not tried"
        finish
    fi
    FULL_DISK=1 exec unshare -rm bash "$ROOT/tests/cli/full_disk.sh"
fi
digits 600
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte" --device cpu)
mkdir small cache; mount -t tmpfs -o size=96k none small
cp "$ROOT/samples/mnist/mlp.net" .
M=small/mlp.net T=("$NETC" train small/mlp.net "${DATA[@]}" --tune-file '' -q)
cp mlp.net small/
printf 'model   m(x: f32[4]) {\n return y = x+1\n}\n' > small/ugly.net
expect 0 "" "$NETC" tune mlp.net --device cpu --budget 0.1 # one line at least, and compiled code for what follows
cp mlp.net.tune small/
mkdir small/cache small/dump
kernel=$("$NETC" --emit cuda mlp.net --tune-file '' | grep -o 'loss_mean_v_max_exp_sum_[0-9a-f]\{8\}' | head -1)
dd if=/dev/zero of=small/fill bs=1k 2>/dev/null
[ "$(df --output=avail small | tail -1)" -eq 0 ] && pass || fail "the disk is not full"

no_room() { # FILE command...: names the file and the reason, leaves what was there
    local file=$1 was=none; shift
    [ -e "$file" ] && was=$(md5sum <"$file")
    expect 2 "$file" "$@" && holds "No space left on device"
    [ "$was" = none ] || [ "$(md5sum <"$file")" = "$was" ] && pass || fail "$file is damaged by: $*"
}
no_room small/mlp.net.tune "$NETC" tune $M --device cpu --budget 3 --again
no_room small/m.bin "$NETC" $M -o small/m.bin --target cpu
no_room small/a.safetensors "${T[@]}" --steps 3 --save small/a.safetensors
no_room small/dump/ast.txt "$NETC" $M --dump small/dump
no_room small/mlp.net.kernels/$kernel.cu "$NETC" inspect $M --eject "$kernel"
no_room small/ugly.net "$NETC" fmt small/ugly.net
no_room small/l.npy "$NETC" run $M --input image="$D/train-images-idx3-ubyte" --output logits=small/l.npy --device cpu
no_room small/p.npy "$NETC" predict $M --data image="$D/train-images-idx3-ubyte" -o logits=small/p.npy --device cpu
no_room small/trace "$NETC" profile $M --device cpu --repeats 2 --steps 1 --trace small/trace
no_room small/r.html "$NETC" report $M -o small/r.html
no_room small/b.jsonl "$NETC" bench $M --device cpu --repeats 2 --steps 1 --compiles 0 --entry train -o small/b.jsonl
expect 2 "cannot write small/tb: No space left on device" "${T[@]}" --steps 30 --tensorboard small/tb
expect 2 "the log small/log could not be written" "${T[@]}" --steps 30 --report-every 1 --log small/log
# The cache: a note, and the code runs all the same; nothing half is left in it.
expect 0 "note: the compile cache cannot be written: small/cache: No space left on device" \
    "$NETC" train $M "${DATA[@]}" --eval-data image="$D/t10k-images-idx3-ubyte" --eval-data label="$D/t10k-labels-idx1-ubyte" \
    --tune-file '' --steps 3 --cache-dir small/cache # two programs
[ "$(grep -c "cache cannot be written" "$W/.out")" = 1 ] && pass || fail "the cache's note is not said once"
[ -z "$(ls small/cache)" ] && pass || fail "left in the cache: $(ls small/cache)"
# The folder that cc works in.
expect 2 "No space left on device" env TMPDIR="$W/small" "${T[@]}" --steps 3 --cache-dir ''
[ -z "$(ls -d small/netc-* 2>/dev/null)" ] && pass || fail "left behind: $(ls -d small/netc-*)"
# With room again all goes well.
rm small/fill
expect 0 "" "${T[@]}" --steps 3 --cache-dir small/cache --save "$W/b.safetensors"
finish
