#!/bin/bash
# Draws stay what they are from build to build: they are numbered by the names of what draws them, also by local names in functions of
# the library. A model that was trained with a seed can be trained again, and a resumed run goes on as it would have.
#
# A row of draws.txt: the line of the model, the number of the draw, its bits, and which of its words. `bash tests/cli/draws.sh --update` writes
# them anew, for a change that is meant to draw other numbers; say so in docs/language.md then.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
cat >m.net <<'N'
use nn
use conv
use optim
use recurrent
use transformer
use vision
use augment
dim batch = 4
model data() {
    u = uniform([4], -1, 1)
    n = normal([4], 2)
    return u, n, b = bernoulli([4], 0.5)
}
model net(x: f32[batch, 8, 8, 16], label: i32[batch] in 0..3) {
    x = random_crop(x)
    x = random_flip(x)
    x = cutout(x, 2)
    x = color_jitter(x, 0.1)
    x = random_affine(x, degrees = 5)
    x, other, share = mixup(x, label)
    x = conv2d(x, 16, 3) as convolution
    x = dropout_channels(x, 0.5)
    x = drop_path(x, 0.5)
    x = linear(reshape(x, [batch, 64, 16]), 16) as first
    x = dropout(x, 0.5) as dropped
    x = attention(x, x, x, drop = 0.5)
    x = embedding(label, 3, 16) + mean(x, 1)
    loop i in 0..2 carry x { x = dropout(x, 0.5) as round }
    h, last = gru(expand(x, 1), 8) as recurrent
    return loss = mean(h * h) + mean(share)
}
train net {
    minimize loss
    update sgd(lr = 0.1)
}
N
"$NETC" --emit ir m.net >m.ir 2>said || fail "$(head -3 said)"
sed -n 's/.*= random(.*site=\([0-9]*\), bits=\([0-9]*\), lane=\([0-9]*\).*m\.net:\([0-9]*\).*/\4 \1 \2 \3/p' m.ir | sort -u | sort -n >draws.txt
[ "${1:-}" = --update ] && cp draws.txt "$here/draws.txt"
[ "$(wc -l <draws.txt)" -gt 20 ] && pass || fail "draws of the model: $(cat draws.txt said)"
diff "$here/draws.txt" draws.txt >changed && pass || fail "other draws than before ($here/draws.txt): $(head -5 changed)"
finish
