#!/bin/bash
# Convolutions by groups of four warps, whose windows bulk copies find in the images (tile/wgmma_windows.c): forward and
# both gradients, on the device of the host, against the evaluator. Sizes that nobody chose, and some on purpose.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim net=$ROOT/tests/shim/net/windows.net
if ! command -v g++ >/dev/null && ! command -v "${SHIM_CXX:-}" >/dev/null; then
    skip "no g++: the CUDA text cannot be run on the host"
    finish
fi

# windows SCHEDULE KERNELS DEFINITION...: so many kernels ('': some) are made by that schedule, and all are right.
windows() {
    local schedule=$1 kernels=$2; shift 2
    { echo '# netc tune 1'; "$NETC" inspect "$net" --target sm_90 --knobs --no-library "$@" |
        sed -n "s/: tile .*wgmma=.*/ @ host shim: tile $schedule/p"; } >windows.tune
    LD_LIBRARY_PATH=$SHIM expect "${EXIT:-0}" "${TEXT:-worst}" "$NETC" check "$net" --device cuda:0 --cache-dir '' --no-library \
        --tune-file windows.tune "$@"
    holds "measured schedules for $kernels"
}
# Each way to share out tiles; sizes along each axis that tiles, lines of the image and images end within; strides, dilation,
# paddings that differ, windows of one line; parts of the columns (b, u over 1), or blocks and groups that share them.
windows 'wgmma=own tile_n=192 cluster=1' 3 -D h=11 -D w=7 -D stride=2 -D c=128
windows 'wgmma=split tile_n=128 cluster=3' 3 -D half=1 -D h=19 -D w=5 -D b=1 -D u=1 -D dilation=2 -D low=0 -D high=2
windows 'wgmma=steps tile_n=128 cluster=2' 3 -D h=6 -D w=13 -D b=1 -D u=1 -D v=5 -D o=128
any() { echo $(($1 + RANDOM % ($2 - $1 + 1))); }
RANDOM=${SEED:=$((10#$(date +%j)))} # another day, other sizes
sizes="-D b=$(any 1 3) -D h=$(any 7 14) -D w=$(any 5 14) -D u=$(any 2 4) -D v=$(any 1 3) -D stride=$(any 1 3) -D dilation=$(any 1 2)"
sizes="$sizes -D low=$(any 0 2) -D high=$(any 0 2) -D c=$((64 * $(any 1 2))) -D o=$((64 * $(any 1 2))) -D half=$(any 0 1)"
echo "SEED=$SEED: $sizes"
# shellcheck disable=SC2086
windows "wgmma=$([ "$(any 0 1)" = 1 ] && echo own || echo together) tile_n=$((64 * $(any 1 4))) cluster=1" '' $sizes

# A pixel too far is found, and a copy that begins where no window does.
SHIM_CUT='nc_quo(first, 64), i0, full=>nc_quo(first, 64), 1, full' EXIT=1 TEXT=WRONG windows 'wgmma=own tile_n=64 cluster=1' 3
SHIM_CUT=', nc_rem(origin_m, 6) - 1=>, nc_rem(origin_m, 6) - 2' EXIT=2 TEXT='begins where none does' \
    windows 'wgmma=own tile_n=64 cluster=1' 3
finish
