#!/bin/bash
# Convolutions by groups of four warps, whose windows bulk copies find in the images (codegen/ir/body_windows.c): forward and
# both gradients, on the device of the host, against the evaluator. Sizes that nobody chose, and some on purpose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/windows.net
needs_shim

# measured FILE KERNELS: the tuning file's schedules, so many, were used. A day's sizes may be some for which no group of four warps
# is listed: then only the values were compared, and that is said.
measured() {
    if [ -n "${SIZES:-}" ] && ! grep -q '^kernel' "$1"; then
        skip "SEED=$SEED: no kernel of groups of four warps for $SIZES"
    else
        holds "measured schedules for $2"
    fi
}

# windows SCHEDULE KERNELS DEFINITION...: so many kernels ('': some) are made by that schedule, and all are right.
windows() {
    # (other builds are checked where sizes are drawn, of a fifth each day)
    { [ -n "${SIZES:-}" ] && today; } || local -x NETC_CHECK_FUSED=1
    local schedule=$1 kernels=$2; shift 2
    { echo '# netc tune 1'; LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" |
        sed -n "s/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile $schedule/p"; } >windows.tune
    LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library \
        --tune-file windows.tune "$@"
    measured windows.tune "$kernels"
}
# Each way to share out tiles; sizes along each axis that tiles, lines of the image and images end within; strides, dilation,
# paddings that differ, windows of one line; parts of the columns (b, u over 1), or blocks and groups that share them. (So few
# results are in parts only on a device of few multiprocessors.)
export SHIM_UNITS=4
windows 'wgmma=own tile_n=192 cluster=1' 3 -D h=11 -D w=7 -D stride=2 -D c=128
windows 'wgmma=split tile_n=128 cluster=3' 4 -D half=1 -D h=19 -D w=5 -D b=1 -D u=1 -D dilation=2 -D low=0 -D high=2
windows 'wgmma=steps tile_n=128 cluster=2' 4 -D h=6 -D w=13 -D b=1 -D u=1 -D v=5 -D o=128
RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
any b 1 2; any h 7 12; any w 5 12; any u 2 4; any v 1 3; any stride 1 3; any dilation 1 2; any low 0 2; any high 0 2; any half 0 1
any c 1 2; any o 1 2; any way 1 2; any tile 1 4
sizes="-D b=$b -D h=$h -D w=$w -D u=$u -D v=$v -D stride=$stride -D dilation=$dilation -D low=$low -D high=$high -D half=$half"
sizes="$sizes -D c=$((64 * c)) -D o=$((64 * o))"
echo "SEED=$SEED: $sizes"
# shellcheck disable=SC2086
SIZES=$sizes windows "wgmma=$([ "$way" = 1 ] && echo own || echo together) tile_n=$((64 * tile)) cluster=1" '' $sizes
unset SHIM_UNITS

# Pixels that a stride leaves no weights for are left out (BodyWindows.live): tiles of different numbers of steps, in bands of
# rows as wide as the device, the last one narrower.
any stride 2 3; any u 3 5; any v 2 5; any b 1 4; any h 9 13; any w 9 13; any low 0 3; any c 1 2; any half 0 1; any way 1 2; any tile 1 3
sizes="-D b=$b -D h=$h -D w=$w -D u=$u -D v=$v -D stride=$stride -D low=$low -D high=$low -D half=$half -D c=$((64 * c))"
echo "SEED=$SEED: apart $sizes"
# shellcheck disable=SC2086
SHIM_UNITS=$((1 + RANDOM % 4)) SIZES=$sizes windows "wgmma=$([ "$way" = 1 ] && echo own || echo together) tile_n=$((64 * tile)) cluster=1" '' $sizes
"$NETC" inspect "$net" --target sm_90 --why --no-library -D b=99 -D h=16 -D w=16 -D stride=2 >skips.txt
grep -q '7 of 16 steps meet no weights' skips.txt && pass || fail "what is left out: $(grep groups skips.txt)"

# Windows of one pixel that stand apart are read where they are: no kernel stores them.
any stride 2 3; any h 7 14; any w 7 14; any c 1 15; any half 0 1
echo "SEED=$SEED: apart -D stride=$stride -D h=$h -D w=$w -D c=$((8 * c)) -D half=$half"
windows 'wgmma=own tile_n=64 cluster=1' 4 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=$stride -D h=$h -D w=$w -D c=$((8 * c)) -D half=$half
"$NETC" inspect "$net" --target sm_90 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=2 >apart.txt
grep -q dot apart.txt && ! grep -q slice apart.txt && pass || fail "what stands apart is stored: $(grep slice apart.txt)"

# Numbers of channels that are no multiple of a copy's, with zeros behind them.
channels() { # DEFINITION...: a fifth each day
    today || return 0
    export SHIM_UNITS=${UNITS:-1}
    { echo '# netc tune 1'; LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" |
        sed -n 's/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile wgmma=own tile_n=64 cluster=1/p'; } >channels.tune
    LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library --tune-file channels.tune "$@"
    measured channels.tune ''
    unset SHIM_UNITS
}
any c 12 15; any o 2 12; any h 12 15; any w 12 15; any half 0 1; any stride 1 2
sizes="-D b=$((8 * stride)) -D h=$h -D w=$w -D c=$((8 * c)) -D o=$((8 * o)) -D half=$half -D stride=$stride"
echo "SEED=$SEED: channels $sizes"
# shellcheck disable=SC2086
SIZES=$sizes channels $sizes

# ... and of the weights whose gradient has parts: results for channels that there are not are computed, and left out.
any c 12 15; any o 11 16; any h 11 13; any w 11 13; any half 0 1 # (so many results that it pays on 32 multiprocessors)
sizes="-D b=8 -D h=$h -D w=$w -D c=$((8 * c)) -D o=$((8 * o)) -D half=$half"
echo "SEED=$SEED: weights of channels $sizes"
# shellcheck disable=SC2086
UNITS=32 SIZES=$sizes channels $sizes

# Strips: one copy has all pixels of a window's line. Lines that end anywhere in a tile, parts of tiles and columns that are no
# result, weights that stay in shared memory; and a strip that begins a pixel too far.
strips() { # TILE_N DEFINITION...: WAY (strips)
    { [ -n "${SIZES:-}" ] && today; } || local -x NETC_CHECK_FUSED=1
    local n=$1; shift
    { echo '# netc tune 1'; SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" |
        sed -n "/ dk_dot/d; /dot_bwd/{/sum/d}; s/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile wgmma=${WAY:-strips} tile_n=$n cluster=1/p"; } >strips.tune
    SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' \
        --no-library --tune-file strips.tune "$@"
    measured strips.tune ''
}
any b 1 3; any h 5 14; any w 5 19; any u 1 4; any v 2 5; any dilation 1 3; any low 0 2; any high 0 2; any half 0 1; any c 1 2; any o 1 25
any tile 1 3
h=$((h + dilation * u)) w=$((w + dilation * v)) # (images that hold a window)
sizes="-D b=$b -D h=$h -D w=$w -D u=$u -D v=$v -D dilation=$dilation -D low=$low -D high=$high -D half=$half -D c=$((64 * c)) -D o=$((8 * o))"
echo "SEED=$SEED: strips of $((32 * tile)): $sizes"
# shellcheck disable=SC2086
SIZES=$sizes strips $((32 * tile)) $sizes
strips 64 -D b=5 -D h=9 -D w=11
strips 64 -D b=3 -D h=13 -D w=11 -D stride=3 -D along=1
WAY=shared_strips strips 96 -D b=3 -D h=11 -D w=13 -D v=$((2 + v % 2)) -D half=$half -D c=80 -D o=$((16 + 8 * o))
# Weights that would fit, but not beside the places of a tile of both groups, and what is stored: they do not stay.
WAY=shared_strips strips 96 -D b=3 -D h=11 -D w=13 -D v=2 -D half=1 -D c=80 -D o=24
WAY=shared_strips strips 96 -D b=3 -D h=11 -D w=13 -D v=3 -D c=80 -D o=64
# A width that does not fit into shared memory is refused, and not among those that are offered.
{ echo '# netc tune 1'; SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library -D w=31 -D v=9 -e forward |
    sed -n 's/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile wgmma=shared_strips tile_n=96 cluster=1/p'; } >wide.tune
SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM expect 1 'tile_n=96 is not possible here' "$NETC" inspect "$net" --target cuda --no-library \
    --tune-file wide.tune -D w=31 -D v=9
grep -q 'with the other knobs as given: 32, 64$' "$W/.out" && pass || fail "offered: $(cat "$W/.out")"
strips 64 -D b=5 -D h=9 -D w=11 -D half=1 -D o=72 -D v=5
SHIM_CUT='x + pixel * 8=>x + pixel * 16' EXIT=1 TEXT=WRONG strips 64

# The gradient of weights by strips, places counted along k: lines and parts that end within a step, pixels that lie apart,
# images of several parts, rows of the result that are no multiple of a tile; a pixel that begins a row too late.
of_weights() { # UNITS DEFINITION...
    { [ -n "${SIZES:-}" ] && today; } || local -x NETC_CHECK_FUSED=1
    local units=$1; shift
    { echo '# netc tune 1'; SHIM_UNITS=$units LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" |
        sed -n '/ dk_dot\| dot_bwd/s/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile wgmma=strips cluster=1/p' | tail -1; } >weights.tune
    SHIM_UNITS=$units LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' \
        --no-library --tune-file weights.tune "$@"
    measured weights.tune 1
}
any h 3 14; any w 5 19; any u 1 3; any v 2 4; any stride 1 3; any dilation 1 2; any low 0 2; any high 0 2; any half 0 1; any o 1 25; any b 1 3
h=$((h + dilation * u)) w=$((w + dilation * v))
sizes="-D b=$b -D h=$h -D w=$w -D u=$u -D v=$v -D dilation=$dilation -D low=$low -D high=$high -D half=$half -D o=$((8 * o)) -D stride=$stride -D along=1"
echo "SEED=$SEED: weights $sizes"
# shellcheck disable=SC2086
SIZES=$sizes of_weights 1 $sizes
of_weights 8 -D b=4 -D h=16 -D w=11
of_weights 8 -D b=6 -D h=8 -D w=14 -D v=2 -D o=72
SHIM_CUT='nc_operand(right, 1)=>nc_operand(right, 2)' EXIT=1 TEXT=WRONG of_weights 8 -D b=4 -D h=16 -D w=11

# Products of few results: a tile a warp, and blocks of a cluster share the columns. Runs of channels are loaded as vectors, from
# images with zeros around them and from pixels that lie apart, or one by one. A run that is taken for inside, and is not.
few() { # DEFINITION...
    today || [ -n "${EXIT:-}" ] || local -x NETC_CHECK_FUSED=1
    LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library "$@"
    LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" >few.txt
    grep -q 'dot.*share=[248]' few.txt && pass || fail "no tile a warp for $*: $(grep dot few.txt)"
}
any b 1 2; any h 3 12; any w 3 12; any u 1 5; any v 1 3; any stride 1 3; any dilation 1 2; any low 0 2; any high 0 2; any half 0 1
any c 1 30; any o 3 70; any unit 1 3
# (Windows that fill an image without overlap, or that do not overlap and whose channels are loaded one by one, are stored: their
# product is none over windows.)
[ "$u" -le "$stride" ] && [ "$v" -le "$stride" ] && { [ "$unit" = 3 ] || [ $((u * v)) = $((stride * stride)) ]; } && v=$((stride + 1))
h=$((h + dilation * u)) w=$((w + dilation * v)) c=$((c * (unit == 3 ? 3 : 8) + 40))
sizes="-D b=$b -D h=$h -D w=$w -D u=$u -D v=$v -D stride=$stride -D dilation=$dilation -D low=$low -D high=$high -D half=$half -D c=$c -D o=$o"
echo "SEED=$SEED: few results $sizes"
# shellcheck disable=SC2086
few $sizes
# shellcheck disable=SC2086
few $sizes --precision tf32
few -D b=1 -D h=4 -D w=4 -D c=512 -D o=96
few -D b=1 -D h=9 -D w=8 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=2 -D c=64 -D o=72
few -D b=1 -D h=13 -D w=12 -D dilation=2 -D c=136 -D o=40 -D half=1
SHIM_CUT='const bool v9 = v6 < 4;=>const bool v9 = v6 < 5;' EXIT=2 TEXT=LAUNCH_FAILED few -D b=1 -D h=4 -D w=4 -D c=512 -D o=96

# A convolution of 1x1 with a stride reads an image that is rounded anyway in place, and one that is not as what it takes, rounded.
cat >shortcut.net <<'NET'
use conv
const b = 1
const h = 8
const w = 8
const c = 64
const o = 72
const stride = 2
model rounded(x: f32[b, h, w, c]) {
    x = autocast(x * 2)
    return y = conv2d(x, o, 3, stride) as wide, z = conv2d(x, o, 1, stride) as short
}
model whole(x: f32[b, h, w, c]) { return z = conv2d(x * 2, o, 1, stride) as short }
NET
checked() { today || local -x NETC_CHECK_FUSED=1; LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$@" --device cuda:0 --cache-dir ''; }
any b 1 2; any h 5 12; any w 5 12; any stride 2 3; any c 5 12; any o 30 80; any half 0 1
sizes="-D b=$b -D h=$h -D w=$w -D stride=$stride -D c=$((8 * c)) -D o=$o"
precision=$([ "$half" = 1 ] && echo f16 || echo bf16)
echo "SEED=$SEED: shortcut $sizes --precision $precision"
# shellcheck disable=SC2086
checked shortcut.net --precision "$precision" $sizes
"$NETC" --emit fused shortcut.net --target cuda --arch sm_90 --precision bf16 >shortcut.txt 2>/dev/null
grep 'slice(' shortcut.txt >slices.txt
[ "$(grep -c '# bf16\[' slices.txt)" = 1 ] && [ "$(grep -c '# f32\[' slices.txt)" = 1 ] && pass || fail "slices: $(cat slices.txt)"

# The lines of few images are parts of the gradient of a convolution's weights: every n-th line by one warpgroup.
net=$ROOT/tests/shim/net/weights_few.net
[ "$("$NETC" inspect "$net" --target sm_90 --no-library --knobs | grep -c 'tile wgmma=own')" = 1 ] && pass || fail "parts of lines: no warpgroups"
for _ in 1 2; do
    any b 2 4; any h 10 14; any c 8 14; any o 8 14; any k 1 4; any stride 1 2
    sizes="-D batch=$b -D h=$((2 * h)) -D c=$((8 * c)) -D o=$((8 * o)) -D k=$k -D p=$((k / 2)) -D stride=$stride"
    echo "SEED=$SEED: parts of lines $sizes"
    # shellcheck disable=SC2086
    checked "$net" --no-library $sizes
done
net=$ROOT/tests/shim/net/windows.net

# Images that are stored in another shape.
net=$ROOT/tests/shim/net/reshaped.net
any b 1 3; any h 16 18; any o 9 11
SHIM_UNITS=1 checked "$net" --no-library -D b=$b -D h=$h -D o=$((8 * o))
copied() { # DEFINITION...: products that copy windows on the device, of all multiprocessors or one
    [ "$(LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --no-library --knobs "$@" | grep -cE 'tile wgmma=(own|[a-z_]*strips)')" -ge 3 ] && pass ||
        fail "SEED=$SEED $*: images in another shape: no warpgroups"
}
copied --target sm_90 -D b=64 -D h=28
SHIM_UNITS=1 copied --target cuda -D b=$b -D h=$h -D o=$((8 * o))
net=$ROOT/tests/shim/net/windows.net

# A gradient of pooling is stored as the image whose windows the products behind it copy.
pooled() {
    "$NETC" inspect "$ROOT/tests/shim/net/pooled.net" --precision bf16 --target sm_90 --why -D b=900 -D h=15 -D w=15 -D c=64 "$@" |
        grep -c 'tile wgmma'
}
[ "$(pooled)" -gt "$(pooled --skip-passes layout)" ] && pass || fail "products that copy windows: $(pooled), $(pooled --skip-passes layout)"

# A pixel too far is found, and a copy that begins where no window does.
SHIM_UNITS=2 SHIM_CUT='first_by_64, i0, full=>first_by_64, 1, full' EXIT=1 TEXT=WRONG windows 'wgmma=own tile_n=64 cluster=1' 3
SHIM_UNITS=2 SHIM_CUT=', origin_m_mod_6 - 1=>, origin_m_mod_6 - 2' EXIT=2 TEXT='begins where none does' \
    windows 'wgmma=own tile_n=64 cluster=1' 3

# A model.bin has the maps of its kernels.
echo 'model made() { return x = normal([2, 5, 6, 64], 1), k = normal([64, 3, 3, 64], 1), bias = normal([64], 1) }' >made.net
"$NETC" run made.net --device cpu --output x=x.npy --output k=k.npy --output bias=bias.npy >/dev/null
{ echo '# netc tune 1'; "$NETC" inspect "$net" --target sm_90 --knobs --no-library |
    sed -n 's/\( @ host shim\)\?: tile .*wgmma=.*/ @ sm_90: tile wgmma=own tile_n=64 cluster=1/p'; } >bin.tune
LD_LIBRARY_PATH=$SHIM "$NETC" "$net" -o made.bin --target cuda --arch sm_90 --tune-file bin.tune --no-library --cache-dir '' 2>/dev/null
made() { "$NETC" run "$@" --entry forward --cache-dir '' --input x=x.npy --input k=k.npy --input bias=bias.npy 2>&1 | grep '^r '; }
LD_LIBRARY_PATH=$SHIM made made.bin --device cuda:0 >r.bin
made "$net" --device cpu >r.cpu
[ -s r.bin ] && cmp -s r.bin r.cpu && grep -q 'nc_copy_windows(left' made.bin && pass || fail "model.bin: $(cat r.bin r.cpu)"

# Weights of each image of a batch: in dx as many images as images times channels of the result.
net=$ROOT/tests/shim/net/own_weights.net
SHIM_UNITS=4 windows 'wgmma=own tile_n=64 cluster=1' 3
any h 7 12; any w 7 14; any u 1 3; any v 2 4; any c 1 2; any o 2 3
sizes="-D h=$h -D w=$w -D u=$u -D v=$v -D c=$((64 * c)) -D o=$((64 * o))"
echo "SEED=$SEED: weights of each image $sizes"
# shellcheck disable=SC2086
SHIM_UNITS=4 SIZES=$sizes windows 'wgmma=own tile_n=128 cluster=1' '' $sizes

finish
