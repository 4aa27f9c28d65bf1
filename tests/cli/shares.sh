#!/bin/bash
# A gradient of a maximum is a share of the elements that equal it. One does, whichever kernels compute the two, or
# the share is NaN and training ends.
. "$(dirname "$0")/../lib.sh"
cat >shares.net <<'NET'
use nn
use optim
dim batch = 300
model made() { return x = normal([3000, 24], 1) }
model shares(x: f32[batch, 24]) {
    param p: f32[3, 330] = normal(1)
    v = x[:, 0:1] * p[0:1, :] + x[:, 1:2] * p[1:2, :] - x[:, 2:3] * p[2:3, :]
    top = max(v, 1, keep = true)
    return loss = mean(square(sin(top) - mean(v * v, 1, keep = true))) + mean(square(max(v, 0) - 1))
}
train shares {
    minimize loss
    update adamw(lr = 1e-3)
}
NET
"$NETC" run shares.net --entry made --device cpu --output x=x.npy >/dev/null
for seed in 1 2 3 4 5 6 7 8; do
    expect 0 "" "$NETC" train shares.net --device "${DEVICE:-cpu}" --data x=x.npy --steps 20 --seed $seed -q
done
finish
