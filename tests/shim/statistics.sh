#!/bin/bash
# Convolutions whose kernels take sums over the rows of their results on the way (codegen/cuda/tile_totals.c), on a device
# of few multiprocessors made of the host, against the evaluator: sizes that nobody chose, and some on purpose. SHAPES (1):
# how many of the first.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/statistics.net
needs_shim

# taken UNITS MODELS DEFINITION...: of so many models ('': any) kernels take the sums, and all are right.
taken() {
    today || return 0 # (a fifth each day)
    local units=$1 models=$2 found; shift 2
    found=$(SHIM_UNITS=$units LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --order --tune-file '' "$@" | grep -c ' dot_.* f32$\|_dot_.* f32$')
    echo "SEED=$SEED: $units multiprocessors, $*: $found take sums"
    [ -z "$models" ] || [ "$found" = "$models" ] && pass || fail "$found of $models kernels take sums: $units $*"
    SHIM_UNITS=$units LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$net" --device cuda:0 --cache-dir '' --tune-file '' "$@"
}
# scheduled UNITS SCHEDULE DEFINITION...: the same by that schedule, which is some kernel's.
scheduled() {
    today || return 0
    local -x NETC_CHECK_FUSED=1 # (the other builds are checked by taken)
    local units=$1 schedule=$2; shift 2
    echo "SEED=$SEED: $units multiprocessors, $schedule, $*"
    { echo '# netc tune 1'; SHIM_UNITS=$units LD_LIBRARY_PATH=$SHIM "$NETC" inspect "$net" --target cuda --knobs --tune-file '' "$@" |
        sed -n "s/\(kernel [^@:]*dot_[^@:]*[0-9a-f]\)\( @ host shim\)\?: tile .*wgmma=.*/\1 @ host shim: tile $schedule/p"; } >sums.tune
    SHIM_UNITS=$units LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$net" --device cuda:0 --cache-dir '' --tune-file sums.tune "$@"
    grep -q '^kernel' sums.tune && holds 'measured schedules for' || fail "no kernel by $schedule"
}
RANDOM=$SEED # another day, other sizes
# Strips, whose weights stay or not; tiles side by side, of which a block has one column; the last one narrower, and rows that
# fill no tile; windows of one pixel, apart.
taken 2 6 -D b=20 -D h=16 -D w=15
taken 1 6 -D b=5 -D h=12 -D w=21 -D c=128 -D o=96
taken 1 6 -D b=22 -D h=16 -D w=15 -D o=24 # fewer channels than a part of the results
taken 2 6 -D b=19 -D h=17 -D w=13 -D stride=2 -D o=232
taken 2 6 -D b=9 -D h=31 -D w=30 -D u=1 -D v=1 -D low=0 -D high=0 -D stride=2 -D c=72 -D o=120 -D half=1
scheduled 2 'wgmma=together tile_n=64 cluster=1' -D b=8 -D h=16 -D w=18 -D o=104
scheduled 2 'wgmma=shared_strips tile_n=96 cluster=1' -D b=8 -D h=16 -D w=18 -D o=104
any() { printf -v "$1" %s $(($2 + RANDOM % ($3 - $2 + 1))); } # NAME LEAST MOST
for _ in $(seq "${SHAPES:-1}"); do
    any h 9 19; any w 9 19; any u 1 4; any v 2 4; any stride 1 3; any low 0 2; any high 0 2; any half 0 1
    any c 1 2; any o 1 40; any units 1 2
    # ... as many images as results that exceed half of these multiprocessors' share of the cache
    b=$((1 + units * 60 * 1048576 / 132 / 2 / (((h + low + high - u) / stride + 1) * ((w + low + high - v) / stride + 1) * 16 * o)))
    taken $units '' -D b=$b -D h=$h -D w=$w -D u=$u -D v=$v -D stride=$stride -D low=$low -D high=$high -D half=$half \
        -D c=$((64 * c)) -D o=$((8 * o))
done
finish
