#!/bin/bash
# netc tune and the files it writes, without a GPU: on the CPU from end to end, for CUDA what a tuning
# file changes in the text.
. "$(dirname "$0")/../lib.sh"
cp "$ROOT/samples/mnist/mlp.net" mlp.net
line() { # TARGET PART-OF-A-NAME: "NAME IDENTITY: SCHEDULE"
    "$NETC" inspect mlp.net --knobs --target "$1" | sed -n "s/^kernel \($2[^ ]* [0-9a-f]*: .*\)/\1/p" | head -1
}
head='# netc tune 1: by hand'

# -- a hand-written file for a GPU: the kernel's schedule changes, its name does not
read -r name id schedule <<<"$(line cuda loss_mean)"
id=${id%:}
expect 0 "again [registers]" "$NETC" inspect mlp.net --knobs --target cuda "$name"
holds "threads that share a row"
before=$("$NETC" --emit cuda mlp.net | grep -A9 "^// $name" | grep -m1 "// schedule:")
printf '%s\nkernel %s %s @ NVIDIA H200: row team=32 vector=1 keep=again threads=128\n' "$head" "$name" "$id" >mlp.net.tune
expect 0 "note: mlp.net.tune: measured schedules for 1 of" "$NETC" --emit cuda mlp.net
after=$(grep -A9 "^// $name" "$W/.out" | grep -m1 "// schedule:")
[ "$before" != "$after" ] && pass || fail "the tuning file changed nothing: $after"
for word in team=32 vector=1 keep=again threads=128; do [[ "$after " == *" $word "* ]] && pass || fail "not as the file says: $after"; done
expect 0 "# measured" "$NETC" inspect mlp.net --knobs --target cuda
expect 0 "$before" "$NETC" --emit cuda mlp.net --tune-file ''

# -- mistakes in it
bad() { # MESSAGE SCHEDULE
    printf '%s\nkernel %s %s @ NVIDIA H200: %s\n' "$head" "$name" "$id" "$2" >mlp.net.tune
    expect 1 "$1" "$NETC" --emit cuda mlp.net
}
bad "mlp.net.tune:2: kernel $name: there is no knob 'teem'; did you mean 'team'?" "row teem=4"
bad "vector=3 is not possible here" "row vector=3"
bad "with the other knobs as given: 1, 2" "row vector=16"
bad "team=0 is not possible here" "row team=0"
bad "threads=1073741823 is not possible here" "row threads=1073741823 team=7"
bad "that is not a value of the knob 'keep'" "row keep=nowhere"
bad "has no knob 'tile_k'" "row tile_k=32"
bad "team is given twice" "row team=4 team=8"
bad "'fast' is not name=value" "row fast"
bad "'circle' is not a kind of schedule" "circle team=4"
bad "a line about a kernel is" ""
printf '%s\nkernel %s %s @ NVIDIA H200: map vector=1\n' "$head" "$name" "$id" >mlp.net.tune
expect 0 "it is for a map schedule, the kernel has a row schedule now; the line is ignored" "$NETC" --emit cuda mlp.net
printf '%s\nkernel %s %s @ NVIDIA H200: row team=4' "$head" "$name" "$id" >mlp.net.tune
expect 1 "is truncated: its last line does not end" "$NETC" --emit cuda mlp.net
for i in 1 2; do printf 'kernel %s %s @ NVIDIA H200: row team=4\n' "$name" "$id"; done | cat <(echo "$head") - >new.tune; mv new.tune mlp.net.tune
expect 1 "already has line 2" "$NETC" --emit cuda mlp.net
echo "nothing of the kind" >mlp.net.tune
expect 1 "is not a tuning file" "$NETC" --emit cuda mlp.net
printf '%s\nkernel other 0123456789abcdef @ NVIDIA H200: row team=4\n' "$head" >mlp.net.tune
expect 0 "none of its 1 kernels is in this model" "$NETC" --emit cuda mlp.net
expect 1 "mlp.tune" "$NETC" mlp.net --tune-file mlp.tune

# -- --locked
expect 1 "has no line for NVIDIA H200" "$NETC" --emit cuda mlp.net --locked
echo "$head" >none.tune # a kernel with several bodies is listed once
expect 1 "has no line for cpu" "$NETC" --emit c mlp.net --tune-file none.tune --locked
[ -z "$(grep '^  kernel' "$W/.out" | sort | uniq -d)" ] && pass || fail "listed twice: $(cat "$W/.out")"
rm mlp.net.tune
expect 1 "there is no mlp.net.tune to lock the schedules to" "$NETC" --emit cuda mlp.net --locked
"$NETC" inspect mlp.net --knobs --target cuda | sed 's/: / @ NVIDIA H200: /' | cat <(echo "$head") - >new.tune; mv new.tune mlp.net.tune
expect 0 "// schedule:" "$NETC" --emit cuda mlp.net --locked
sed -i '$d' mlp.net.tune
expect 1 "has no line for NVIDIA H200" "$NETC" --emit cuda mlp.net --locked
rm mlp.net.tune

# -- what --knobs prints is a tuning file's, where the device is known; parts of a kernel are named as it names them
{ echo '# netc tune 1'; "$NETC" inspect mlp.net --knobs --target cpu; } >mlp.net.tune
n=$(grep -c '^kernel .* @ cpu: ' mlp.net.tune); [ "$n" -gt 9 ] && pass || fail "no lines for cpu: $(cat mlp.net.tune)"
expect 0 "// schedule:" "$NETC" --emit c mlp.net --locked
printf '%s\nkernel %s %s @ NVIDIA H200: row team=32 vector=1 keep=again threads=128\n' "$head" other 0123456789abcdef >mlp.net.tune
"$NETC" inspect mlp.net --knobs --target cuda --tune-file '' >none
grep -q '^# No GPU is known here' none && ! grep -q '^kernel.* @' none && pass || fail "a device out of nowhere: $(head -3 none)"
{ echo '# netc tune 1'; "$NETC" inspect mlp.net --knobs --target cuda; } >new.tune; mv new.tune mlp.net.tune
expect 0 "// schedule:" "$NETC" --emit cuda mlp.net --locked
rm mlp.net.tune
part=$("$NETC" inspect mlp.net --knobs --target cuda --tune-file '' | sed -n 's,^kernel \([^ ]*/[1-9]\) .*,\1,p' | head -1); whole=${part%/*}
expect 0 "kernel $part " "$NETC" inspect mlp.net --target cuda --knobs "$part"
[ "$(grep -c '^kernel ' "$W/.out")" = 1 ] && pass || fail "more than $part: $(cat "$W/.out")"
expect 1 "did you mean $whole?" "$NETC" inspect mlp.net --target cuda --knobs "$whole/99"
expect 0 "// $whole" "$NETC" inspect mlp.net --target cuda "$part"
expect 0 "wrote mlp.net.kernels/$whole.cu" "$NETC" inspect mlp.net --target cuda --eject "$part"
rm -r mlp.net.kernels
part=$("$NETC" inspect mlp.net --knobs --target cpu -e train | sed -n 's,^kernel \([^ ]*/[0-9]\) .*,\1,p' | head -1)
expect 0 "1 launches to search" "$NETC" tune mlp.net --device cpu --budget 9 --kernel "$part" --tune-file part.tune
first=$("$NETC" inspect mlp.net --knobs --target cpu | sed -n 's,^kernel \([^ /]*\).*,\1,p' | head -1)
expect 1 "kernel $first computes initial values: it runs once, and is not tuned" "$NETC" tune mlp.net --device cpu --kernel "$first"

# -- the CPU from end to end
expect 1 "leaves no time to measure" "$NETC" tune mlp.net --budget 0
expect 1 "there is no kernel 'nothing'" "$NETC" tune mlp.net --device cpu --kernel nothing
rm -f mlp.net.tune
expect 2 "cannot be written, so no measurement could be kept" "$NETC" tune mlp.net --device cpu --tune-file nodir/x.tune
mkdir closed; cp mlp.net closed/; chmod a-w closed
if [ -w closed ]; then skip "root may write anywhere"; else
    expect 2 "cannot be written, so no measurement could be kept" "$NETC" tune closed/mlp.net --device cpu
fi
expect 0 "launches to search" "$NETC" tune mlp.net --device cpu --budget 1200
holds "wrote mlp.net.tune; compilation uses it automatically"
grep -q '^kernel .* @ cpu: .*  # .* -> .* us$' mlp.net.tune && pass || fail "the file: $(head -4 mlp.net.tune)"
[ "$(tail -n +3 mlp.net.tune | LC_ALL=C sort)" = "$(tail -n +3 mlp.net.tune)" ] && pass || fail "the file is not sorted"
cp mlp.net.tune first.tune
expect 0 "every kernel already has a schedule" "$NETC" tune mlp.net --device cpu --budget 1200
cmp -s first.tune mlp.net.tune && pass || fail "a second run changed the file"
expect 0 "" "$NETC" --emit c mlp.net --locked
expect 0 "kernels on" "$NETC" check mlp.net --device cpu
holds_not() { ! grep -qF -- "$1" "$W/.out" && pass || fail "'$1' in: $(head -5 "$W/.out")"; }
holds_not WRONG
# a line lost is measured again, from the cache, and the file is unchanged but for times
sed -i '3d' mlp.net.tune
expect 0 "1 launches to search" "$NETC" tune mlp.net --device cpu --budget 1200
[ "$(cut -d'#' -f1 mlp.net.tune | sed 's/:.*//')" = "$(cut -d'#' -f1 first.tune | sed 's/:.*//')" ] && pass || fail "lines differ"
printf 'kernel gone 0123456789abcdef @ cpu: map\n' >>mlp.net.tune
expect 0 "" "$NETC" --emit c mlp.net --locked # lines of other sizes wait
expect 0 "kernels on" "$NETC" check mlp.net --device cpu --locked
expect 0 "" "$NETC" tune mlp.net --device cpu --prune
! grep -q '^kernel gone' mlp.net.tune && pass || fail "a line without a kernel is there yet"
expect 0 "" "$NETC" --emit c mlp.net --locked
expect 1 "has no line for cpu" "$NETC" --emit c mlp.net --locked -D batch=11
expect 0 "wrote mlp.net.tune" "$NETC" tune mlp.net --device cpu --budget 1200 -D batch=11
expect 0 "" "$NETC" --emit c mlp.net --locked
expect 0 "" "$NETC" --emit c mlp.net --locked -D batch=11
expect 1 "a locked program keeps" "$NETC" tune mlp.net --device cpu --locked

# -- a checkpoint's schedules are a resumed training's, whatever lies beside the model by then
rm -f mlp.net.tune
digits 600
run() { # SAVE options...: trains, quietly
    local to=$1; shift
    "$NETC" train mlp.net --device cpu -q --data image="$D/train-images-idx3-ubyte" \
        --data label="$D/train-labels-idx1-ubyte" --save "$to.safetensors" "$@" || fail "training: $to"
}
tensors() { tail -c +$((9 + $(od -An -tu8 -N8 "$1.safetensors"))) "$1.safetensors" | md5sum; }
{ echo "$head"; "$NETC" inspect mlp.net --knobs --target cpu | sed -n 's/^\(kernel [^:]* @ cpu\): column split=1 /\1: column split=4 /p'; } >split.tune
read -r name id _ <<<"$("$NETC" inspect mlp.net --knobs --target cpu | sed -n 's/^kernel \(.*\): map tile=784.*/\1/p')"
run=$("$NETC" inspect mlp.net --knobs --target cpu | sed -n 's/^kernel \(h_add.*\) @ cpu: map tile=128.*/\1/p')
for tile in 0 100 1568; do
    printf '%s\nkernel %s %s @ cpu: map tile=%s\n' "$head" "$name" "$id" $tile >mlp.net.tune
    expect 1 "tile=$tile is not possible here" "$NETC" --emit c mlp.net
done
holds "as given: 64, 128, 256, 512, 784"
printf '%s\nkernel %s @ cpu: map tile=64\n' "$head" "$run" >mlp.net.tune # of a kernel that the run has, too
printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (128, 28, 28), }" >image.npy
head -c 100352 /dev/zero >>image.npy
expect 0 "note: mlp.net.tune: measured schedules for" "$NETC" run mlp.net --device cpu --input image=image.npy --output logits=l.npy
[ "$(grep -c mlp.net.tune "$W/.out")" = 1 ] && pass || fail "compiled more than once: $(cat "$W/.out")"
rm mlp.net.tune
grep -q split=4 split.tune && pass || fail "no sum over columns to cut"
run plain2 --epochs 2; run plain1 --epochs 1
cp split.tune mlp.net.tune
run split2 --epochs 2; run split1 --epochs 1
[ "$(tensors plain2)" != "$(tensors split2)" ] && pass || fail "another order of sums gave the same bits: nothing is tested here"
run plain --epochs 2 --resume plain1.safetensors
[ "$(tensors plain2)" = "$(tensors plain)" ] && pass || fail "resumed by the tuning file, not by the checkpoint"
rm mlp.net.tune
run split --epochs 2 --resume split1.safetensors
[ "$(tensors split2)" = "$(tensors split)" ] && pass || fail "the checkpoint's schedules were not used"
cp split.tune mlp.net.tune; expect 0 "" "$NETC" mlp.net --target cpu -o split.bin; rm mlp.net.tune
expect 1 "split.bin is compiled already; tune its .net source" "$NETC" tune split.bin --device cpu
"$NETC" train split.bin --device cpu -q --data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte" --epochs 2 --save bin.safetensors
[ "$(tensors split2)" = "$(tensors bin)" ] && pass || fail "model.bin runs by other schedules than it was compiled with"

# -- Ctrl-C keeps what was found, and what another has written meanwhile: here while one kernel is done and the
# compiler, which waits, has the next
rm -f mlp.net.tune
printf '#!/bin/sh\nif grep -q " tried " said; then : >held; until [ -e go ]; do sleep 0.05; done; fi\nexec cc "$@"\n' >holding
chmod +x holding
(trap - INT; CC=$W/holding exec "$NETC" tune mlp.net --device cpu --budget 1200 --again --cache-dir '') >said 2>&1 & tuning=$!
wait_for $tuning [ -e held ]
other='kernel other 0123456789abcdef @ NVIDIA H200: row team=4'
echo "$other" >>mlp.net.tune
kill -INT $tuning; : >go; wait $tuning; code=$?
grep -qxF "$other" mlp.net.tune && pass || fail "a line of another tuning is lost: $(cat mlp.net.tune)"
lines=$(grep -c '^kernel ' mlp.net.tune)
if grep -q 'of 11 searched, ' said && ! grep -q '^11 of' said; then
    [ $code = 130 ] && grep -q 'run the same command to continue' said && pass || fail "after Ctrl-C: exit $code: $(tail -3 said)"
fi
[ "$lines" -ge 1 ] && pass || fail "after Ctrl-C nothing is kept: $(tail -3 said)"
expect 0 "measured schedules for" "$NETC" --emit c mlp.net
expect 0 "wrote mlp.net.tune" "$NETC" tune mlp.net --device cpu --budget 1200
[ "$(grep -c '^kernel ' mlp.net.tune)" -gt "$lines" ] && pass || fail "it did not go on where it ended"
finish
