#!/bin/bash
# Convolutions of images with three axes by groups of four warps, whose windows bulk copies find (codegen/ir/body_windows.c):
# forward and both gradients, on the device of the host, against the evaluator. Sizes that nobody chose, and some on purpose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/windows3.net
needs_shim
export SHIM_UNITS=${SHIM_UNITS:-4} # (so few results are in parts only on a device of few multiprocessors)

# windows SCHEDULE KERNELS DEFINITION...: so many kernels ('': some) are made by that schedule, the first ones, and all are right.
windows() {
    # (other builds are checked where sizes are drawn, of a fifth each day)
    { [ -n "${SIZES:-}" ] && today; } || local -x NETC_CHECK_FUSED=1
    local schedule=$1 kernels=$2; shift 2
    { echo '# netc tune 1'; LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" |
        sed -n "s/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile $schedule/p" | head -"${kernels:-9}"; } >windows.tune
    LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library \
        --tune-file windows.tune "$@"
    if [ -n "${SIZES:-}" ] && ! grep -q '^kernel' windows.tune; then
        skip "SEED=$SEED: no kernel of groups of four warps for $SIZES"
    else
        holds "measured schedules for $kernels"
    fi
}
# Sizes along each axis that tiles, lines, planes and images end within; windows of one plane and of one pixel of a line, with no
# pixel in the middle; strides that differ, dilation, paddings that differ; blocks, or groups, that share the columns.
windows 'wgmma=own tile_n=64 cluster=1' 3 -D d=5 -D h=7 -D w=9 -D stride=2
windows 'wgmma=own tile_n=128 cluster=1' 3 -D d=3 -D h=7 -D w=5 -D t=1 -D c=128 -D stride=2 -D along=1
windows 'wgmma=split tile_n=128 cluster=3' 2 -D d=9 -D h=9 -D w=6 -D u=1 -D v=1 -D b=1 -D low=0 -D high=2 -D o=128
windows 'wgmma=steps tile_n=128 cluster=2' 2 -D d=9 -D h=4 -D w=13 -D t=2 -D u=1 -D v=1 -D dilation=2 -D b=1 -D low=0 -D high=2 -D o=128
windows 'wgmma=together tile_n=64 cluster=1' 3 -D d=4 -D h=5 -D w=6 -D t=2 -D u=2 -D v=2 -D dilation=2 -D half=1

# Gradients of weights in parts of some planes of each image, or of one each; their last step reaches beyond them.
parts() { # UNITS PARTS DEFINITION...
    export SHIM_UNITS=$1
    local parts=$2; shift 2
    windows 'wgmma=own tile_n=128 cluster=1' 3 "$@"
    LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --no-library "$@" >parts.txt
    grep -q "^  dot  *$((parts * 64 * 3 * 64 * 4)) " parts.txt && pass || fail "no product of $parts parts for $*: $(grep '^  dot' parts.txt)"
    SHIM_UNITS=4
}
parts 6 6 -D d=13 -D h=17 -D w=13 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=2 -D along=1
parts 5 5 -D b=1 -D d=12 -D h=19 -D w=15 -D u=1 -D v=1 -D dilation=2
parts 8 10 -D b=1 -D d=12 -D h=19 -D w=15 -D u=1 -D v=1 -D dilation=2

RANDOM=$SEED # another day, other sizes
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
for _ in 1 2; do
    any b 1 3; any d 2 6; any h 2 8; any w 2 9; any t 1 4; any u 1 3; any v 1 3; any stride 1 3; any along 1 2; any dilation 1 2
    any low 0 2; any high 0 2; any half 0 1; any c 1 2; any o 1 2; any way 1 2; any tile 1 4
    d=$((d + dilation * (t - 1))) h=$((h + dilation * (u - 1))) w=$((w + dilation * (v - 1))) # (images that hold a window)
    sizes="-D b=$b -D d=$d -D h=$h -D w=$w -D t=$t -D u=$u -D v=$v -D stride=$stride -D along=$along -D dilation=$dilation -D low=$low"
    sizes="$sizes -D high=$high -D half=$half -D c=$((64 * c)) -D o=$((64 * o))"
    echo "SEED=$SEED: $sizes"
    # shellcheck disable=SC2086
    SIZES=$sizes windows "wgmma=$([ "$way" = 1 ] && echo own || echo together) tile_n=$((64 * tile)) cluster=1" '' $sizes
done

# Numbers of channels that are no multiple of a copy's.
any c 12 15; any o 8 15; any d 6 9; any h 6 9; any w 6 9; any half 0 1
sizes="-D b=8 -D d=$d -D h=$h -D w=$w -D c=$((8 * c)) -D o=$((8 * o)) -D half=$half -D t=2 -D u=2 -D v=2"
echo "SEED=$SEED: channels $sizes"
# shellcheck disable=SC2086
SHIM_UNITS=1 SIZES=$sizes windows 'wgmma=own tile_n=64 cluster=1' '' $sizes

# Strips, forward and of the gradient of the image: one copy has all pixels of a window's line. Lines that end anywhere in a tile,
# windows of one line, planes that are a stride apart; channels that are extended for copies; and a strip that begins too far.
strips() { # TILE_N KERNELS DEFINITION...
    { [ -n "${SIZES:-}" ] && today; } || local -x NETC_CHECK_FUSED=1
    local n=$1 kernels=$2; shift 2
    export SHIM_UNITS=1
    { echo '# netc tune 1'; LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --no-library "$@" |
        sed -n "/ dk_dot/d; s/\( @ host shim\)\?: tile .*wgmma=.*/ @ host shim: tile wgmma=strips tile_n=$n cluster=1/p"; } >strips.tune
    LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library \
        --tune-file strips.tune "$@"
    if [ -n "${SIZES:-}" ] && ! grep -q '^kernel' strips.tune; then
        skip "SEED=$SEED: no kernel of groups of four warps for $SIZES"
    else
        holds "measured schedules for $kernels"
    fi
    SHIM_UNITS=4
}
strips 64 2 -D d=4 -D h=5 -D w=11
strips 32 2 -D d=4 -D h=7 -D w=9 -D u=1 -D dilation=2 -D half=1
strips 32 2 -D d=6 -D h=7 -D w=9 -D c=32 -D o=40
strips 64 1 -D b=3 -D d=5 -D h=6 -D w=7 -D t=2 -D v=4 -D low=2 -D o=40 -D stride=2 -D along=1
any b 1 3; any d 2 6; any h 2 8; any w 5 16; any t 1 3; any u 1 3; any v 2 4; any dilation 1 2; any low 0 2; any high 0 2; any half 0 1
any c 1 2; any o 1 16; any tile 1 3
d=$((d + dilation * (t - 1))) h=$((h + dilation * (u - 1))) w=$((w + dilation * (v - 1)))
sizes="-D b=$b -D d=$d -D h=$h -D w=$w -D t=$t -D u=$u -D v=$v -D dilation=$dilation -D low=$low -D high=$high -D half=$half"
sizes="$sizes -D c=$((64 * c)) -D o=$((8 * o))"
echo "SEED=$SEED: strips of $((32 * tile)): $sizes"
# shellcheck disable=SC2086
SIZES=$sizes strips $((32 * tile)) '' $sizes
SHIM_CUT='x + pixel * 8=>x + pixel * 16' EXIT=1 TEXT=WRONG strips 64 2

# Windows of one pixel that stand apart are read where they are: no kernel stores them.
windows 'wgmma=own tile_n=64 cluster=1' 3 -D t=1 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=2 -D d=5 -D h=4 -D c=72
"$NETC" inspect "$net" --target sm_90 -D t=1 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=2 >apart.txt
grep -q dot apart.txt && ! grep -q slice apart.txt && pass || fail "what stands apart is stored: $(grep slice apart.txt)"

# What a stride leaves no weights for is left out.
"$NETC" inspect "$net" --target sm_90 --why --no-library -D b=99 -D d=8 -D h=8 -D w=8 -D stride=2 >skips.txt
grep -q 'steps meet no weights' skips.txt && pass || fail "what is left out: $(grep groups skips.txt)"

# A descriptor of three axes reaches 31 pixels into a window, and 16 before an image: beyond that no copies are made.
copied() { # DEFINITION...: kernels
    "$NETC" inspect "$net" --target sm_90 --knobs --no-library -D b=64 -D d=40 "$@" | grep -c 'tile wgmma'
}
for reach in '-D t=2 -D dilation=31 -D u=1 -D v=1 -D low=16 -D high=15' '-D low=16 -D high=15'; do
    # shellcheck disable=SC2086
    n=$(copied $reach)
    # shellcheck disable=SC2086
    beyond=$(copied $(sed 's/=31/=32/; t; s/=16/=17/' <<<"$reach"))
    [ "$n" -gt "$beyond" ] && pass || fail "products that copy windows of $reach: $n, beyond that $beyond"
done

# A plane too far is found, and a copy that begins where no window does.
SHIM_CUT='origin_n_by_576, full=>1, full' EXIT=1 TEXT=WRONG windows 'wgmma=own tile_n=64 cluster=1' 3
SHIM_CUT=', first_by_20_mod_3 - 1=>, first_by_20_mod_3 - 2' EXIT=2 TEXT='begins where none does' \
    windows 'wgmma=own tile_n=64 cluster=1' 3
finish
