#!/bin/bash
# Updates by index (passes/scatter.c): scatter_add into many places, whose updates are sorted by place first, on a device of one
# multiprocessor, where that pays for few of them; scatter of many updates; rows of a cell, changed where they are. Random sizes; and an
# index out of range is named at its own position.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
export SHIM_UNITS=1 LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cat >sums.net <<'N'
const n = 9000
const p = 26000
const c = 70
model a(x: f32[p, c], i: i32[n] in 0..p, u: f32[n, c]) { return y = scatter_add(x, i, u) }
# What all columns of an update share: indices, one of them checked, a weight of the edge, a sum over its own features. Names of the printer.
model b(x: f32[500, c], i: i32[n], to: i32[n] in 0..500, to_u: f32[n], f: f32[n, 7], low: f32[c]) {
    first = x[to] * expand(to_u, -1) + expand(sum(f * expand(to_u, -1), -1), -1) * low
    return y = scatter_add(zeros([p, c]), i % p, first)
}
model g(w: f32[p, c], i: i32[n] in 0..p) { return dw = grad(sum(sin(w[i])), w) }
model one(x: f32[p], i: i32[n] in 0..p, u: f32[n]) { return y = scatter_add(x, i, u) }
model few(i: i32[n] in 0..3, u: f32[n, c]) { return y = scatter_add(zeros([p, c]), i * (p // 3), u) }
model middle(x: f32[3, p, c // 3], i: i64[n] in 0..p, u: f32[3, n, c // 3]) { return y = scatter_add(x, i, u, axis = 1) }
N
checked() { today || local -x NETC_CHECK_FUSED=1; expect 0 "kernels on cuda:0" "$NETC" check "$@" --device cuda:0 --cache-dir ''; }
RANDOM=$SEED # another day, other sizes
odd() { [ $((SEED % 2)) = 1 ]; }
for size in "$(odd || echo "-D n=$((9000 + RANDOM % 4000)) -D p=$((11000 + RANDOM % 3000)) -D c=$((131 + RANDOM % 60))")"; do
    # shellcheck disable=SC2086
    checked sums.net $size
    # shellcheck disable=SC2086
    sorted=$("$NETC" inspect sums.net --why --cache-dir '' $size 2>&1 | grep -c 'places a block, whose updates are neighbours')
    [ "$sorted" -ge 5 ] && pass || fail "SEED=$SEED $size: sums of sorted updates: $sorted of 5"
done
# Few columns: several places a warp. (The fewer there are, the more places a block has that looks for updates, and the more updates are
# needed before sorting them pays.)
narrow() { # FILE SORTED SIZES...
    local file=$1 least=$2; shift 2
    checked "$file" "$@"
    sorted=$("$NETC" inspect "$file" --why --cache-dir '' "$@" 2>&1 | grep -c 'places a block, whose updates are neighbours')
    [ "$sorted" = "$least" ] && pass || fail "SEED=$SEED $*: sums of sorted updates: $sorted of $least"
}
sed "/^model middle/d; /^model one/d" sums.net >narrow.net
sed -n '/^const/p; /^model one/p' sums.net >one.net
if odd; then
    narrow one.net 1 -D n=$((70000 + RANDOM % 2000)) -D p=$((270000 + RANDOM % 8000))
else
    narrow narrow.net 4 -D n=$((16500 + RANDOM % 2000)) -D p=$((60000 + RANDOM % 4000)) -D c=$((15 + RANDOM % 12))
fi
# Looked for, of few columns: onto few places and many (codegen/lower/lower_bins.c).
checked "$ROOT/tests/shim/net/bins.net" -D rows=$((1 + RANDOM % 9000)) -D count=$((1 + RANDOM % 4000)) -D width=$((1 + RANDOM % 31))
# Sums of integers by atomics, on a device that is large enough for them; fewer updates than places and more.
net=$ROOT/tests/shim/net/scatter_integers.net
size="-D n=$((10000 + RANDOM % 6000)) -D p=$((10000 + RANDOM % 6000)) -D c=$((1 + RANDOM % 5))"
# shellcheck disable=SC2086
SHIM_UNITS=132 checked "$net" $size
# shellcheck disable=SC2086
[ "$("$NETC" "$net" $size --emit cuda --target cuda --arch sm_90 2>/dev/null | grep -c 'atomicAdd((uint64_t')" -ge 4 ] && pass ||
    fail "SEED=$SEED $size: no sums of integers"
# Updates of which the last or the largest one of each place remains, or integers: by atomics.
net=$ROOT/tests/shim/net/scatters.net
size="-D n=$((150 + RANDOM % 700)) -D p=$((1 + RANDOM % 900))"
# shellcheck disable=SC2086
checked "$net" $size
atomics=$("$NETC" "$net" --emit cuda --target cuda --arch sm_90 2>/dev/null | grep -cE '^ +(nc_)?atomic(Max|Min|Add)\(')
[ "$atomics" = 15 ] && pass || fail "$atomics updates by atomics"

# Rows of a cell: only those with updates are read and stored, also if the updates are computed from the cell.
net=$ROOT/tests/shim/net/row_updates.net
for size in "-D p=$((2000 + RANDOM % 3000)) -D batch=$((400 + RANDOM % 600)) -D c=$((1 + RANDOM % 100))" \
    "-D p=$((700 + RANDOM % 900)) -D batch=$((1 + RANDOM % 3)) -D c=$((200 + RANDOM % 200))"; do
    # shellcheck disable=SC2086
    checked "$net" $size
done
rows=$("$NETC" inspect "$net" --why --cache-dir '' -D p=9000 -D batch=1500 2>&1 | grep -c 'only results with updates are read and stored')
[ "$rows" = 6 ] && pass || fail "$rows of 6 sums change only rows with updates"
"$NETC" inspect "$net" --order --cache-dir '' -D p=90000 -D batch=64 >order 2>&1
large=$(grep 'temporaries: arena' order | awk '$3 > 1e6' | wc -l)
[ "$large" = 0 ] && pass || fail "$large entries have temporaries of the size of a table: $(grep 'temporaries: arena' order)"

cat >bad.net <<'N'
const n = 8000
const p = 9000
const c = 70
model make() { return low = where(iota(n) == 77, -3, iota(n) * 7 % p), high = where(iota(n) == 4321, 9000, iota(n) * 7 % p), u = normal([n, c], 1) }
model a(i: i32[n], u: f32[n, c]) { return y = scatter_add(zeros([p, c]), i, u) }
N
"$NETC" run -q bad.net --entry make -o low=low.npy -o high=high.npy -o u=u.npy --device cpu >out 2>&1 || fail "make: $(cat out)"
for device in cpu cuda:0; do
    expect 1 "index of an update: -3 at element 77 is outside 0..9000" "$NETC" run bad.net --entry a --input i=low.npy --input u=u.npy --device $device --cache-dir ''
    expect 1 "index of an update: 9000 at element 4321 is outside 0..9000" "$NETC" run bad.net --entry a --input i=high.npy --input u=u.npy --device $device --cache-dir ''
done

# After such an error no kernel reads what another one has not stored: a new value of a state that other kernels read, too, is
# stored even then, and copied to the state only if nothing has failed.
cat >after.net <<'N'
use nn
const n = 5000
const p = 900
const c = 40
const m = 300
model make() { return i = where(iota(n) == 77, -3, iota(n) * 7 % p), u = normal([n, c], 1), x = normal([m, 1024], 1) }
model sums(i: i32[n], u: f32[n, c]) {
    state a: f32[p, c] = 1
    old = a
    a <- scatter_add(a, i, u)
    return y = sum(old * a), z = a[0]
}
model computed(i: i32[n], u: f32[n, c]) {
    state b: f32[p, c] = 1
    b <- scatter_add(b, i, b[i] * 0.5 + u)
    return y = b[0]
}
model copied(i: i32[n], u: f32[n, 64]) {
    state r: f32[n, 64] = 1
    state at: f32[p] = 1
    q = softmax(r * 0.9 + u * sum(at[i]))
    r <- q
    return z = matmul(q, transpose(r[0:7]))
}
model beside(i: i32[n], u: f32[n, 64]) {
    state s: f32[n, 64] = 1
    state from: f32[p] = 1
    q = softmax(u * sum(from[i]))
    t = cos(q)
    s <- q
    return y = matmul(t, transpose(u[0:8])), z = sum(t[::-1, :] * q, 0)
}
# (the index of the last gather is known to be in range, and what the state held before is not)
model index(i: i32[n], x: f32[m, 1024]) {
    state places: i32[m, 1024] = 1000000
    state table: f32[p] = 1
    near = argsort(x * sum(table[i]))
    places <- near
    return y = sum(x[0][near], 1), z = near[0]
}
N
size="-D n=$((4100 + RANDOM % 1500)) -D p=$((420 + RANDOM % 600))"
# shellcheck disable=SC2086
"$NETC" run -q after.net $size --entry make -o i=i.npy -o u=u.npy -o x=x.npy --device cpu >out 2>&1 || fail "make: $(cat out)"
# shellcheck disable=SC2086
"$NETC" run -q after.net $size -D c=64 --entry make -o u=wide.npy --device cpu >out 2>&1 || fail "make: $(cat out)"
for device in cpu cuda:0; do
    for model in sums:u=u.npy computed:u=u.npy copied:u=wide.npy beside:u=wide.npy index:x=x.npy; do
        # shellcheck disable=SC2086
        expect 1 ": -3 at element 77 is outside 0..${size##*=}" "$NETC" run after.net $size --entry "${model%:*}" --input i=i.npy --input "${model#*:}" --device $device --cache-dir ''
    done
done
finish
