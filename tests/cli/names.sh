#!/bin/bash
# A name that is not there: the error says what is meant or what there is, in every place that takes one.
. "$(dirname "$0")/../lib.sh"
cat >m.net <<'N'
use nn
use optim
dim batch = 4
setting rate = 0.1
model net(image: f32[batch, 3], label: f32[batch, 1]) {
    y = linear(image, 1) as top
    return loss = mean(square(y - label)), y
}
model double(image: f32[batch, 3]) { return twice = image * 2 }
train net {
    minimize loss
    update sgd(lr = rate)
}
N
printf 'model make() { return x = uniform([8, 3], 0, 1), y = uniform([8, 1], 0, 1) }\n' >make.net
expect 0 "" "$NETC" run make.net -o x=x.npy -o y=y.npy --device cpu
expect 0 "" "$NETC" m.net -o m.bin --target cpu
DATA=(--data image=x.npy --data label=y.npy --device cpu)
RUN=(--input image=x.npy --input label=y.npy --device cpu)

for model in m.net m.bin; do
    # entries
    expect 1 "has no entry 'zzz'; there are 'init', " "$NETC" profile $model --entry zzz --device cpu
    for entry in train eval net double; do holds "'$entry'"; done
    expect 1 "did you mean 'double'?" "$NETC" bench $model --entry dubble --device cpu
    expect 1 "'double'" "$NETC" run $model --entry zzz "${RUN[@]}"
    # outputs, taps, parameters
    expect 1 "'net' has no output 'zzz'; there are 'loss' and 'y'" "$NETC" run $model --entry net "${RUN[@]}" -o zzz=z.npy
    expect 1 "did you mean 'loss'?" "$NETC" run $model --entry net "${RUN[@]}" -o los=z.npy
    expect 1 "output or tap 'zzz'; there are " "$NETC" train $model "${DATA[@]}" --steps 1 --watch zzz
    holds "'top.weight', 'top.bias'"
    grep -q "'@" "$W/.out" && fail "cells of netc's own in the list: $(cat "$W/.out")" || pass
    # inputs
    expect 1 "has no input 'zzz'; there are 'image' and 'label'" "$NETC" train $model --data zzz=x.npy --data label=y.npy --device cpu
    expect 1 "did you mean 'image'?" "$NETC" run $model --entry double --input imag=x.npy --device cpu
    # settings and definitions
    expect 1 "has no setting 'zzz' that is read here; there is 'rate'" "$NETC" train $model "${DATA[@]}" --steps 1 --set zzz=1
    expect 1 "no const, dim or setting of that name; there are 'batch' and 'rate'" "$NETC" eval $model "${DATA[@]}" -D zzz=1
done
# stages, passes, standard files
expect 1 "there is no stage 'zzz'; there are 'ast', 'ir', " "$NETC" m.net --emit zzz
expect 1 "there is no pass 'zzz'" "$NETC" m.net --skip-passes zzz
printf 'use zzz\nmodel m(x: f32[3]) { return x }\n' >use.net
files=$(cd "$ROOT/frontend/std" && printf "'%s', " *.net | sed "s/\.net//g; s/, $//; s/\(.*\), /\1 and /")
expect 1 "it is neither in the standard library nor beside this file; there are $files" "$NETC" use.net
finish
