#!/bin/bash
# Generated CUDA on the device of the host as no file asks for it: with schedules that a tuning file
# names, in another order of the threads, and broken on purpose, which the shim has to find.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim

cat >rows.net <<'NET'
use nn
model m(x: f32[3, 5000], t: f32[70, 40]) { return y = softmax(x), n = layer_norm(x, affine = false), z = transpose(t) * 2, s = sum(t, 0) }
model drawn() {
    x = normal([9, 3000], 1)
    return y = softmax(x), s = sum(x, 0), all = sum(exp(x)), t = layer_norm(transpose(x), affine = false)
}
NET
# Another order of the threads gives the same bits; so does a device of another architecture.
bits() { LD_LIBRARY_PATH=$SHIM "$NETC" run rows.net --entry drawn --device cuda:0 "$@" 2>&1; }
SHIM_SEED=1 bits >bits.1; SHIM_SEED=7 bits >bits.2; SHIM_ARCH=80 bits >bits.3
[ "$(grep -cE '^(y|s|t|all) ' bits.1)" = 4 ] && cmp -s bits.1 bits.2 && cmp -s bits.1 bits.3 && pass ||
    fail "bits: $(head -c 300 bits.1) against $(head -c 300 bits.2)"

# Products by groups of four warps, which only large ones take by themselves.
groups() { # SCHEDULE EXIT_CODE TEXT
    local -x NETC_CHECK_FUSED=1 # (shim/run checks the other builds of mma.net)
    { echo '# netc tune 1'; "$NETC" inspect "$ROOT/tests/shim/net/mma.net" --target sm_90 --knobs --no-library "${small[@]}" |
        sed -n "s/: tile .*wgmma=no.*/ @ host shim: tile $1/p"; } >groups.tune
    LD_LIBRARY_PATH=$SHIM expect "$2" "$3" "$NETC" check "$ROOT/tests/shim/net/mma.net" --device cuda:0 --cache-dir '' \
        --no-library --tune-file groups.tune "${small[@]}"
}
small=(-D m=136 -D n=72 -D k=200)
groups 'wgmma=own tile_n=64 cluster=2' 0 worst
holds 'measured schedules for 7 of 11 kernels'
small=(-D m=200 -D n=136 -D k=72)
groups 'wgmma=together tile_n=128 cluster=1' 0 worst
SHIM_CUT='(thread / 16 ^ thread % 8) * 8=>thread / 16 * 8' groups 'wgmma=own tile_n=64 cluster=1' 1 WRONG
# The cost model lets blocks share the columns where tiles are few and columns many.
cat >few.net <<'NET'
model few(x: bf16[32768, 768], y: bf16[32768, 768]) { return w = matmul(transpose(y), x) }
model many(x: bf16[32768, 768], w: bf16[768, 768]) { return y = matmul(x, w) }
NET
expect 0 'wgmma=split tile_n=192 cluster=4' "$NETC" inspect few.net --target sm_90 --knobs --no-library
holds 'wgmma=own tile_n=192 cluster=1'
expect 0 '4 blocks divide the columns' "$NETC" inspect few.net --target sm_90 --why --no-library
# Blocks of a cluster share the columns, and the groups of a block: ranges of nothing, a short last range and rows that the
# blocks cannot share equally, several tiles for a cluster.
small=(-D m=136 -D n=200 -D k=264)
groups 'wgmma=split tile_n=64 cluster=4' 0 worst
holds 'measured schedules for 7 of 11 kernels'
small=(-D m=264 -D n=136 -D k=328)
SHIM_SEED=3 groups 'wgmma=steps tile_n=160 cluster=3' 0 worst
SHIM_UNITS=12 groups 'wgmma=split tile_n=192 cluster=5' 0 worst
cat >shapes.net <<'NET'
const m = 8
const n = 8
const k = 8
model shapes(a: bf16[m, k], at: f16[k, m], b: f16[k, n], bt: bf16[n, k], bias: f32[n]) {
    return y = max(cast(matmul(a, transpose(bt)), f32) + bias, 0), z = matmul(transpose(at), b)
}
NET
RANDOM=11
for _ in 1 2; do
    small=(-D m=$((8 + RANDOM % 40 * 8)) -D n=$((8 + RANDOM % 40 * 8)) -D k=$((8 + RANDOM % 80 * 8)))
    schedule="wgmma=split tile_n=$((64 + RANDOM % 4 * 64)) cluster=$((1 + RANDOM % 8))"
    [ $((RANDOM % 2)) = 0 ] && schedule="wgmma=steps tile_n=$((64 + RANDOM % 5 * 32)) cluster=$((1 + RANDOM % 8))"
    { echo '# netc tune 1'; "$NETC" inspect shapes.net --target sm_90 --knobs --no-library "${small[@]}" |
        sed -n "s/: tile .*wgmma=.*/ @ host shim: tile $schedule/p"; } >shapes.tune
    NETC_CHECK_FUSED=1 SHIM_UNITS=$((8 + RANDOM % 30)) LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check shapes.net --device cuda:0 \
        --cache-dir '' --no-library --tune-file shapes.tune "${small[@]}"
    holds 'measured schedules for 2 of '
done
# Products of few rows or few columns, a tile a warp: every tile, shared by any number of warps, and by the blocks of a
# cluster, at random sizes (even ones, whose vectors are loaded as they lie, and odd ones).
cat >narrow.net <<'NET'
const m = 8
const n = 8
const k = 128
model narrow(a: bf16[m, k], at: f16[k, m], b: f16[k, n], bt: bf16[n, k], bias: f32[n], more: bf16[m, n]) {
    return y = more + tanh(matmul(a, transpose(bt)) + cast(bias, bf16)), z = matmul(transpose(at), b), x = matmul(a * 2, transpose(bt))
}
NET
warp_tiles() { # MODEL SCHEDULE OPTION...
    local -x NETC_CHECK_FUSED=1
    local model=$1 schedule=$2; shift 2
    { echo '# netc tune 1'; "$NETC" inspect "$model.net" --target sm_90 --knobs --no-library "$@" |
        sed -n "s/: tile .*/ @ host shim: tile $schedule/p"; } >"$model.tune"
    SHIM_SEED=$RANDOM LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$model.net" --device cuda:0 --cache-dir '' \
        --no-library --tune-file "$model.tune" "$@"
    holds 'measured schedules for 3 of'
}
RANDOM=17
for each in 0 1 2 3 2 1; do
    few=$((1 + RANDOM % 64)) many=$((1 + RANDOM % 300)) share=$((1 << (RANDOM % 4))) cluster=1
    [ $((RANDOM % 2)) = 0 ] && share=8 cluster=$((2 << (RANDOM % 3)))
    [ $((RANDOM % 2)) = 0 ] && few=$((few / 8 * 8 + 8)) many=$((many / 8 * 8 + 8))
    small=(-D m=$few -D n=$many -D k=$((128 + RANDOM % 300)))
    [ $((RANDOM % 2)) = 0 ] && small=(-D m=$many -D n=$few -D k=$((128 + RANDOM % 40 * 8)))
    warp_tiles narrow "each=$each share=$share cluster=$cluster" "${small[@]}"
done
LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check narrow.net --device cuda:0 --cache-dir '' --no-library "${small[@]}"
# ... and with a barrier of the cluster left out.
small=(-D m=20 -D n=40 -D k=300)
{ echo '# netc tune 1'; "$NETC" inspect narrow.net --target sm_90 --knobs --no-library "${small[@]}" |
    sed -n "s/: tile each=.*share=8.*/ @ host shim: tile each=1 share=8 cluster=4/p"; } >narrow.tune
SHIM_CUT='nc_cluster_wait();=>__syncthreads();' SHIM_SEED=3 LD_LIBRARY_PATH=$SHIM expect 2 'shared memory' \
    "$NETC" check narrow.net --device cuda:0 --cache-dir '' --no-library --tune-file narrow.tune "${small[@]}"
# The same of f32, with its own digits and TF32's.
cat >few32.net <<'NET'
const m = 8
const n = 8
const k = 128
model few(a: f32[m, k], at: f32[k, m], b: f32[k, n], bt: f32[n, k], bias: f32[n], more: f32[m, n]) {
    return y = more + tanh(matmul(a, transpose(bt)) + bias), z = matmul(transpose(at), b), x = matmul(a * 2, transpose(bt))
}
NET
for each in 0 1 2 3 2 1; do
    share=$((1 << (RANDOM % 4))) cluster=1 precision=f32
    [ $((RANDOM / 8 % 3)) != 0 ] && share=8 cluster=$((2 << (RANDOM / 8 % 3)))
    [ $((RANDOM / 8 % 2)) = 0 ] && precision=tf32
    warp_tiles few32 "each=$each share=$share cluster=$cluster" --precision $precision -D m=$((2 + RANDOM / 8 % 90)) \
        -D n=$((2 + RANDOM / 8 % 90)) -D k=$((9 + RANDOM / 8 % 1000))
done
LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check few32.net --device cuda:0 --cache-dir '' --no-library -D m=37 -D n=50 -D k=300
# Tensor cores cut sums off where additions round them: in f32 long sums keep their digits.
cat >digits.net <<'NET'
model digits() {
    a, b = uniform([40, 8192], 0, 1), uniform([8192, 24], 0, 1)
    exact = matmul(cast(a, f64), cast(b, f64))
    return wrong = max(abs(cast(matmul(a, b), f64) / exact - 1)) * 1e7
}
NET
LD_LIBRARY_PATH=$SHIM expect 0 '' "$NETC" run digits.net --device cuda:0 --cache-dir '' --no-library --json
awk '/wrong/ { match($0, /[0-9.]+[^0-9]*$/); if (substr($0, RSTART) + 0 < 8) good = 1 } END { exit !good }' "$W/.out" && pass ||
    fail "f32 on tensor cores: $(cat "$W/.out")"
# A left operand whose rows begin anywhere.
small=(-D m=137 -D n=72 -D k=201)
groups 'wgmma=own tile_n=64 cluster=2' 0 worst
holds 'measured schedules for 2 of 11 kernels'
SHIM_CUT='first - shift=>first' groups 'wgmma=own tile_n=64 cluster=1' 1 WRONG
small=(-D m=300 -D n=136 -D k=202)
groups 'wgmma=together tile_n=256 cluster=1' 0 worst

# What stands before such rows, the end of the row above, does not get into their results: every second row of [x] ends
# with an infinity.
cat >stray.net <<'NET'
const m = 137
const n = 72
const k = 201
model made() {
    last = reshape(iota(m * k), [m, k]) % (2 * k) == 2 * k - 1
    return x = select(last, cast(inf, f32), normal([m, k], 1)), w = normal([k, n], 2)
}
model stray(x: f32[m, k], w: f32[k, n]) {
    a = cast(x, bf16)
    b = cast(w, bf16)
    y = matmul(a, b)
    return a, b, y, finite = sum(cast(isfinite(y), i32))
}
NET
stray() { # SCHEDULE FINITE_RESULTS
    { echo '# netc tune 1'; "$NETC" inspect stray.net --target sm_90 --knobs --no-library |
        sed -n "s/: tile .*wgmma=no.*/ @ host shim: tile $1/p"; } >stray.tune
    LD_LIBRARY_PATH=$SHIM expect 0 "finite i64[] $2" "$NETC" run stray.net --entry stray --device cuda:0 --cache-dir '' \
        --no-library --tune-file stray.tune --input x=x.npy --input w=w.npy
    holds 'measured schedules for 1 of 3 kernels'
}
"$NETC" run stray.net --entry made --device cpu --output x=x.npy --output w=w.npy >/dev/null
stray 'wgmma=own tile_n=64 cluster=1' $((69 * 72))
stray 'wgmma=together tile_n=64 cluster=2' $((69 * 72))
SHIM_CUT='step == 0 && shift > 0=>step < 0' stray 'wgmma=own tile_n=64 cluster=1' $((18 * 72))

# Tiles in shared memory: a ring that is filled again, sums that blocks of a cluster share, aligned operands and others.
ring() { # SCHEDULE OPTION...: a fifth each day
    today || return 0
    local schedule=$1; shift
    { echo '# netc tune 1'; "$NETC" inspect "$ROOT/tests/shim/net/staged.net" --target sm_90 --knobs --precision tf32 "$@" |
        sed -n "s/: tile .*/ @ host shim: tile $schedule tile_m=32 tile_n=32 share=0/p"; } >ring.tune
    LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$ROOT/tests/shim/net/staged.net" --device cuda:0 --cache-dir '' \
        --precision tf32 --tune-file ring.tune "$@"
    holds "measured schedules for $(($(wc -l <ring.tune) - 1)) of"
}
ring 'staged=2 cluster=1' -D batch=20 -D width=20 -D inputs=1300
ring 'staged=2 cluster=2' -D batch=33 -D width=24 -D inputs=1101
ring 'staged=2 cluster=4' -D batch=36 -D width=24 -D inputs=1100

# Sums of a row that do not wait for their factor: a row whose sum overflows without it, as every 1000th does here,
# takes another round. A team of two warps, which sums the next row ahead; one warp and rows that start anywhere.
cat >rare.net <<'NET'
use nn
const width = 504
model made() { return x = normal([4301, width], 0.3) + where(normal([4301, width], 1) > 0, 2.5, -2.5) }
model rare(x: f32[4301, width]) {
    large = where(iota([4301], 0) % 1000 == 7, 5e38 / width, 1.0)
    y = layer_norm(x) as norm
    total = sum(y * (abs(x) * 0.01 + 1) * expand(cast(large, f32), 1))
    dx = grad(total, x)
    return dx, dw = grad(total, norm.weight), row7 = dx[7], row8 = dx[8]
}
NET
rare() { # RIGHT? SCHEDULE DEFINITION...
    local right=$1 schedule=$2; shift 2
    "$NETC" run rare.net --entry made --device cpu --output x=x.npy "$@" >/dev/null
    "$NETC" run rare.net --entry rare --device cpu --input x=x.npy "$@" 2>&1 | grep '^row' >rare.cpu
    { echo '# netc tune 1'; "$NETC" inspect rare.net --target sm_90 --knobs "$@" |
        sed -n "s/: sweep .*/ @ host shim: sweep $schedule/p"; } >rare.tune
    LD_LIBRARY_PATH=$SHIM expect 0 'measured schedules for 1 of' "$NETC" run rare.net --entry rare --device cuda:0 --cache-dir '' \
        --tune-file rare.tune --input x=x.npy "$@"
    paste -d ' ' rare.cpu <(grep '^row' "$W/.out") | awk -v right="$right" '{ for (i = 3; i <= 10; i++) {
        bad += !($i - $(i + 11) <= 1e-3 * ($i + 0 > 0 ? $i : -$i) && $(i + 11) - $i <= 1e-3 * ($i + 0 > 0 ? $i : -$i)); n++ } }
        END { exit !(n == 16 && (bad == 0) == right) }' && pass || fail "rare $schedule $*: $(grep -h '^row' rare.cpu "$W/.out")"
}
rare 1 'team=64 ahead=3 skew=1'
SHIM_CUT='= nc_isfinite(v=>= true || nc_isfinite(v' rare 0 'team=64 ahead=3 skew=1'
rare 1 team=32 -D width=501

# The second product fetches its weights before it waits for the first one, but not that one's result.
cat >products.net <<'NET'
use nn
model m(x: f32[40, 64]) { return y = linear(relu(linear(x, 48) as a), 24) as b }
NET
LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check products.net --device cuda:0 --cache-dir ''
SHIM_CUT=$'nc_follow();\n    float sums=>float sums' LD_LIBRARY_PATH=$SHIM \
    expect 2 'what the kernel before wrote, before the wait for it' "$NETC" check products.net --device cuda:0 --cache-dir ''

# In a loop a map fetches its slice of what is scanned before it waits for the product in front of it.
cat >rounds.net <<'NET'
model m(x: f32[6, 40, 128], w: f32[64, 128]) {
    h = zeros([40, 64])
    loop t in 0..6 carry h over a = x {
        i, g = split(a + matmul(h, w), 2)
        h = sigmoid(i) * tanh(g)
    }
    return h
}
NET
"$NETC" rounds.net --precision bf16 --emit cuda >rounds.cu
awk '/__global__/ { ahead = 0 } /= nc_prefetch</ { ahead++ } /nc_follow[(][)];/ && ahead == 2 { n++ } END { exit n != 1 }' \
    rounds.cu && pass || fail "the map of a loop does not fetch its two slices ahead"
LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check rounds.net --device cuda:0 --precision bf16 --cache-dir ''
SHIM_CUT=$'nc_follow();\n        const float=>const float' LD_LIBRARY_PATH=$SHIM expect 2 'before the wait for' \
    "$NETC" check rounds.net --device cuda:0 --precision bf16 --cache-dir ''

# A launch whose tiles keep it from beginning early has small products with updates, too: each function that asks
# whether a check has failed has looked.
"$NETC" "$ROOT/bench/mlp.net" --precision tf32 -D first=512 -D second=64 -D batch=512 --emit cuda >crowded.cu
awk '/__device__|__global__/ { knows = 0 } /bool failed =/ { knows = 1 }
    /if [(]failed[)]/ { asked++; if (!knows) bad++ } END { exit !asked || bad }' crowded.cu && pass ||
    fail "a function asks whether a check has failed and has not looked"

# Copies and products that are asynchronous take effect where something waits for them (late.h): a wait less, an arrival too
# early, a fence less is found.
cat >group.net <<'NET'
model product(x: bf16[136, 904], w: bf16[904, 136]) { return y = matmul(x, w) }
NET
cat >copies.net <<'NET'
model products(x: bf16[72, 328], w: bf16[328, 72], f: f32[20, 1300], g: f32[1300, 20]) { return y = matmul(x, w), z = matmul(f, g) }
NET
{ echo '# netc tune 1'; "$NETC" inspect group.net --target sm_90 --knobs --no-library |
    sed -n 's/: tile .*wgmma=.*/ @ host shim: tile wgmma=own tile_n=128 cluster=2/p'; } >group.tune
{ echo '# netc tune 1'; "$NETC" inspect copies.net --target sm_90 --knobs --no-library --precision tf32 |
    sed -n 's/: tile .*share=[1-8].*/ @ host shim: tile staged=3 tile_m=32 tile_n=32 share=0 cluster=4/p'; } >copies.tune
late() { # MODEL SHIM_CUT EXIT_CODE TEXT
    SHIM_CUT=$2 LD_LIBRARY_PATH=$SHIM expect "$3" "$4" "$NETC" check "$1.net" --device cuda:0 --cache-dir '' \
        --precision tf32 --no-library --tune-file "$1.tune"
}
SHIM_SEED=5 late group 'no such text=>x' 0 worst
holds 'measured schedules for 1 of 1 kernels'
SHIM_EARLY=1 late group 'no such text=>x' 0 worst
late group 'nc_bar_wait(full + place, parity);=>' 2 'an asynchronous copy has yet to write'
late group 'nc_bar_wait(full + place, parity);=>nc_bar_wait(full + place, parity ^ 1);' 2 'an asynchronous copy has yet to write'
late group 'nc_bar_wait(empty + place, parity);=>' 2 'more arrive at an mbarrier'
late group 'if (step > 0 && thread < 2) nc_bar_arrive(empty + before, thread);=>if (thread < 2) nc_bar_arrive(empty + place, thread);' \
    2 'an asynchronous copy has yet to write'
early=$'                nc_products_done<1>();\n                if (step > 0 && thread < 2) nc_bar_arrive(empty + before, thread);'
late group "$early=>${early#*;}${early%%;*};" 2 'an asynchronous copy has yet to write'
NETC_CHECK_FUSED=1 late group 'nc_products_done<1>();=>' 1 WRONG
late group 'nc_products_done<0>();=>' 2 'products that nobody has waited for'
late group 'nc_products_begin();=>' 2 'without a fence before its group'
late group 'nc_fence_written();=>' 2 'with no fence of that thread between'
late group 'nc_boxes_read<1>();=>' 2 'an asynchronous copy has yet to read'
late group 'nc_boxes_read<0>();=>' 2 'bulk copies that still read its shared memory'
# ... and where blocks share the columns, two tiles each: sums that are read before they are there, or written while the ring
# is read; copies that come over them.
sed 's/136/264/g' group.net >shared.net
{ echo '# netc tune 1'; "$NETC" inspect shared.net --target sm_90 --knobs --no-library |
    sed -n 's/: tile .*wgmma=.*/ @ host shim: tile wgmma=steps tile_n=160 cluster=3/p'; } >shared.tune
shared() { SHIM_UNITS=9 late shared "$@"; }
SHIM_SEED=5 shared 'no such text=>x' 0 worst
holds 'measured schedules for 1 of 1 kernels'
NETC_CHECK_FUSED=1 shared 'rank * 384=>rank * 320' 1 WRONG
shared 'nc_bar_hear(written, round);=>' 2 'dynamic shared memory at'
shared 'nc_bar_hear(read, round ^ 1);=>' 2 'dynamic shared memory at'
shared 'nc_groups_wait();=>' 2 'dynamic shared memory at'
shared 'nc_fence_written();=>' 2 'with no fence of that thread between'
shared 'if (thread < 3) nc_bar_tell(written, thread);=>if (thread == 0) nc_bar_tell(written, rank);' 2 'it never ends'
wait='asm volatile("cp.async.wait_group %0;" : : "n"(N)'
late copies 'no such text=>x' 0 worst
SHIM_EARLY=1 late copies 'no such text=>x' 0 worst
late copies "$wait : \"memory\");=>" 2 'an asynchronous copy has yet to write'
late copies "$wait=>${wait%(N)}(N + 1)" 2 'an asynchronous copy has yet to write'
late copies $'nc_copied<2>();\n        __syncthreads(); // left, right: there=>nc_copied<2>();' 2 'race in dynamic shared memory'
late copies $'nc_copied<3>();\n        __syncthreads(); // left, right: there=>nc_copied<3>();' 2 'race in dynamic shared memory'

# The shim finds what is broken on purpose in the text of kernels.
broken() { # SHIM_CUT EXIT_CODE TEXT
    SHIM_CUT=$1 LD_LIBRARY_PATH=$SHIM expect "$2" "$3" "$NETC" check rows.net --device cuda:0 --cache-dir ''
}
barrier=$'part[threadIdx.x / 32] = v;\n        __syncthreads();'
broken 'no such text=>x' 0 'worst'
broken "$barrier=>${barrier%%;*};" 2 'shared memory'
broken 'if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;=>if (threadIdx.x % 32 < 2) part[threadIdx.x / 32] = v + threadIdx.x % 32;' 2 'race in shared memory'
broken 'if (Slot < 0) __syncthreads();=>if (threadIdx.x != 40) __syncthreads();' 2 'wait at different barriers'
broken "$barrier=>${barrier%%;*}; if (threadIdx.x < 32 || part[0] != 0) __syncthreads();" 2 'shared memory'
broken '__syncthreads();=>;' 2 'shared memory'
broken '__syncthreads();=>while (threadIdx.x == 7) __nanosleep(1); __syncthreads();' 2 'it never ends'
broken '"griddepcontrol.wait;"=>""' 2 'before the wait for'
broken 'v = part[W > 4 ? threadIdx.x % W : 0]=>v = part[0]' 1 'WRONG'
broken 'nc_shuffle(v, m)=>nc_shuffle(v, m / 2)' 1 'WRONG'
broken '*(decltype(m.raw) *)p = m.raw;=>*(decltype(m.raw) *)(p + 200000) = m.raw;' 2 'out of bounds'
broken '(const decltype(m.raw) *)p;=>(const decltype(m.raw) *)(p + (threadIdx.x == 0));' 2 'misaligned'

# Attention whose mask is a number that the scores of one row are no higher than; blocks take tiles two by two. The block
# that has the row has to begin again.
cat >mask.net <<'NET'
use nn
const T = 400
const d = 64
model mask(q: bf16[2, T, d], k: bf16[2, T, d], v: bf16[2, T, d], dy: bf16[2, T, d]) {
    low = where(iota([2, T, 1], 1) == 67 and iota([2, T, 1], 0) == 1, -20000, 0.0)
    s = matmul(cast(q, f32), transpose(cast(k, f32))) / sqrt(d) + low
    y = matmul(softmax(where(iota([T, T], 1) <= iota([T, T], 0), s, -20000)), cast(v, f32))
    return y = y, dv = grad(sum(y * dy), v)
}
NET
mask() { # SHIM_CUT EXIT_CODE TEXT
    SHIM_UNITS=4 SHIM_CUT=$1 LD_LIBRARY_PATH=$SHIM expect "$2" "$3" "$NETC" check mask.net --device cuda:0 --cache-dir '' --precision bf16
}
mask '' 0 worst
NETC_CHECK_FUSED=1 mask 'nc_any_role(vote, low)=>nc_any_role(vote, false)' 1 WRONG
mask 'nc_any_role(vote, low)=>__syncthreads_or(low)' 2 'wait at different barriers'
mask 'turn++,=>turn += 2,' 2 'never written'

# What `netc check` sees: a maximum that only shifts a softmax, where elements are of all sizes; a store behind the end of an
# output and of a temporary.
echo 'model shift(x: f32[3, 5000]) { return y = exp(x - max(x, 1, keep = true)) / sum(exp(x - max(x, 1, keep = true)), 1, keep = true) }' >shift.net
echo 'model ends(x: f32[63]) { return y = cumsum(x, 0) }' >output.net
echo 'model ends(x: f32[63]) { return y = sort(cumsum(x, 0)) }' >temporary.net
seen() { # MODEL SHIM_CUT TEXT
    SHIM_CUT=$2 LD_LIBRARY_PATH=$SHIM expect 1 "$3" "$NETC" check "$1.net" --device cuda:0 --cache-dir ''
    SHIM_CUT= LD_LIBRARY_PATH=$SHIM expect 0 worst "$NETC" check "$1.net" --device cuda:0 --cache-dir ''
}
seen shift 'nc_team<NcMax, 256=>nc_team<NcMin, 256' 'WRONG output of shift (fused): y'
seen output 'b1[i1] = v1;=>b1[i1] = v1; b1[63] = 0;' 'WRONG store of ends (fused): byte 0 after the end of y was written'
seen temporary 'b1[i1] = v1;=>b1[i1] = v1; b1[63] = 0;' 'WRONG store of ends (unfused): byte 0 after the end of a temporary was written'

# ... and one that reads a temporary before it is written, where another one lay until then.
cat >lives.net <<'NET'
model lives(x: f32[70, 40]) {
    a = cumsum(x, 1)
    b = cumsum(a, 0)
    c = cumsum(sigmoid(b), 1)
    return d = cumsum(c, 0)
}
NET
SHIM_CUT=' = nc_sigmoid(=> = 0 * b1[row * 40 + i1] + nc_sigmoid(' LD_LIBRARY_PATH=$SHIM \
    expect 2 'read of what was never written' "$NETC" check lives.net --device cuda:0 --cache-dir ''
finish
