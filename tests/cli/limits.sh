#!/bin/bash
# What is too big ends in one message, soon and within the memory there is: files, what a small file expands to, texts
# that grow while they are compiled.
. "$(dirname "$0")/../lib.sh"
if grep -q __asan_init "$NETC"; then skip "a sanitizer reserves all address space: limits mean nothing"; finish; fi
# within KB: a command that runs the words behind it with so much address space.
within() { printf 'ulimit -v %s; exec "$@"' "$1"; }

# -- files
truncate -s 400M big.net
for kb in 300000 600000; do expect 2 "big.net does not fit in memory" bash -c "$(within $kb)" - "$NETC" big.net; done
expect 2 "big.net does not fit in memory" bash -c "$(within 600000)" - "$NETC" run big.net

# -- texts that grow: an error at the line, within 4 GB of address space
grows() { # TEXT BODY: the body of a model whose third line is to blame
    printf 'fn pair(l) { return l, l }\nmodel m(x: f32[4], big: f32[8589934592]) {\n    %s\n    return y\n}\n' "$2" > grows.net
    expect 1 "grows.net:3:" bash -c "$(within 4000000)" - "$NETC" grows.net && holds "$1"
}
many="a list known at compile time has at most 1048576"
grows "$many" 'l = [1]; for i in 0..40 { l = l + l }; y = x'
grows "$many" 'l = [1]; for i in 0..40 { l = [l, l] }; y = x + (if l == l then 1 else 2)'
grows "$many" 'l = [1]; for i in 0..40 { l = zip(l, l) }; y = x'
grows "$many" 'l = 1; for i in 0..40 { l = pair(l) }; y = x + (if l == l then 1 else 2)'
grows "a string has at most" 'l = "a"; for i in 0..40 { l = l + l }; y = x'
grows "$many" 'y = x; for i in enumerate(0..4000000000) { y = y + i[0] }'
grows "$many" 'y = x + [0..4000000000]'
grows "$many" 'y = split(big, 8589934592)[0]'
grows "has 2^32 numbers or more" 'y = sum(0..5000000000)'
grows "at compile time, and this is too much" 'y = x; for i in 0..4000000000 { y = y }'
grows "takes more than 1024 MiB to elaborate" 'l = [1]; for i in 0..4000000 { l = l + [1] }; y = x'
{
    echo 'fn f0(x) { return x }'
    for i in $(seq 45); do echo "fn f$i(x) { return f$((i - 1))(f$((i - 1))(x)) }"; done
    printf 'model m(x: f32[4]) {\n    return y = f45(x)\n}\n'
} > twice.net
expect 1 "takes more than 1024 MiB to elaborate" bash -c "$(within 4000000)" - "$NETC" twice.net

# OpenBLAS waits for ever for address space that there is not: netc multiplies by itself then.
echo 'model m() { return y = sum(matmul(uniform([64, 300], 0, 1), uniform([300, 200], 0, 1))) }' >product.net
expect 0 "y" "$NETC" run product.net --device cpu && pass # (compiled)
expect 0 "y" bash -c "$(within 180000)" - timeout -s KILL 60 "$NETC" run product.net --device cpu && pass

expect 0 "compiler " "$NETC" run product.net --device cpu --cache-dir '' -v && pass
grep -q "(0.00 s of processor time)" "$W/.out" && fail "the compiler's time is not its process's: $(grep ready: "$W/.out")" || pass

# Two columns of a wide matrix: gcc takes minutes if it sees their stride.
echo 'model m(x: f32[40, 2048]) { return y = sum(x[:, 0] * x[:, 1]), z = x[:, 7] - x[:, 2000] }' >columns.net
expect 0 "" timeout -s KILL 60 "$NETC" check columns.net --device cpu --cache-dir '' && pass

# netc check frees what it has computed on the way: all values of the three models would take 2.1 GB.
for f in sin cos tanh; do echo "model $f(x: f32[100000, 20]) { return y = sum(exp($f(x * 2 + 1) * 3), 1) }"; done >many.net
sed -i 's/^model \([a-z]*\)(/model by_\1(/' many.net
expect 0 "by_tanh" bash -c "$(within 1900000)" - "$NETC" check many.net --device cpu

# Data without an end.
printf 'dim batch = 4\nmodel m(x: f32[batch, 3]) { return y = sum(x, 1) }\n' >endless.net
expect 2 "has not ended after" bash -c "$(within 900000)" - "$NETC" predict endless.net --data x=/dev/zero -o y=y.npy --device cpu
expect 2 "has not ended after" bash -c "$(within 900000) < <(yes 1,2,3)" - "$NETC" predict endless.net --data x=/dev/stdin -o y=y.npy --device cpu

# -- values used twice, forty lines of them, at every place of an attention: a walk without a memory of where it was
# takes 2^40 steps
doubled() { # NAME LINE: NAME = LINE, forty times, where the model below makes it
    [ "$1" = "$place" ] && echo "    for n in 0..40 { $1 = ${line//X/$1} }"
}
for place in keys values bias scores i p y t; do
    for line in 'X + X - X' 'X * X' 'where(X < X + 1, X, X * 2)' 'maximum(X, X * 2)' 'X - X * X * 3'; do
        {
            echo 'use nn'
            echo 'model m(q: f32[2, 64, 16], k: f32[2, 64, 16], v: f32[2, 64, 16], b: f32[2, 64, 1], dy: f32[2, 64, 16]) {'
            echo '    keys = k * 1.5'; doubled keys
            echo '    values = v * 1.5'; doubled values
            echo '    bias = b * 1.5'; doubled bias
            echo '    scores = matmul(q, transpose(keys)) / 8 + bias'; doubled scores
            echo '    i = iota([64, 64], 0)'; doubled i
            echo '    p = softmax(where(iota([64, 64], 1) <= i, scores, -inf))'; doubled p
            echo '    y = matmul(p, values)'; doubled y
            echo '    t = sum(y * dy)'; doubled t
            echo '    return y, dq = grad(t, q), dk = grad(t, k), dv = grad(t, v)'
            echo '}'
        } > doubled.net
        for target in c cuda; do
            expect 0 "" "$NETC" doubled.net --emit $target -o doubled.out || echo "    $target: $place = $line"
        done
    done
done

# -- nesting, on a stack of 1 MiB
ulimit -s 1024
nest() { # NAME TEXT BEFORE INNER AFTER: 100,000 deep
    printf 'model m(x: f32[4]) {\n    y = ' > "$1.net"
    { yes "$3" | head -100000; echo "$4"; yes "$5" | head -100000; } | tr -d '\n' >> "$1.net"
    printf '\n    return y\n}\n' >> "$1.net"
    for verb in compile fmt; do expect 1 "$2" "$NETC" $verb "$1.net"; done
}
nest brackets "nested more than 200 deep" '(' x ')'
nest lists "nested more than 200 deep" '[' x ']'
nest calls "nested more than 200 deep" 'sin(' x ')'
nest signs "nested too deeply" '-' x ''
nest sums "operations deep" '' x '+1'
nest powers "nested too deeply" '' x '**1'
nest choices "nested too deeply" 'if true then ' x ' else x'
nest indices "operations deep" '' x '[0]'
for n in 250 1000 5000; do
    for ((i = 1; i <= n; i++)); do echo "fn f$i(x) { if true { for i in 0..1 { y = 1 + (2 * [f$((i - 1))(x)][0]) } }; return y }"; done > chain.net
    printf 'fn f0(x) { return x }\nmodel m(x: f32[4]) {\n    return y = f%d(x)\n}\n' $n >> chain.net
    expect 1 "calls are nested too deeply" "$NETC" chain.net
done
{ printf 'fn f('; seq -s, -f 'a%.0f' 100000 | tr -d '\n'; printf ') {\n    return a1\n}\n'; } > wide.net
expect 1 "a function has at most 64 parameters, not 100000" "$NETC" wide.net
finish
