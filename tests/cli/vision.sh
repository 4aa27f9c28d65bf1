#!/bin/bash
# Networks made of std/vision's blocks: those published have as many parameters as published, small ones learn; images of
# odd sizes, of one channel.
. "$(dirname "$0")/../lib.sh"
cat >published.net <<'N'
use nn
use conv
use vision

fn stem(image) { return max_pool(conv_norm(image, 64, 7, 2) as stem, 3, 2, padding = 1) }

fn resnet(x, counts, block) {
    for i, n in enumerate(counts) {
        for j in 0..n { x = block(x, 64 * 2 ** i, if i > 0 and j == 0 then 2 else 1) as "layer{i}.{j}" }
    }
    return linear(global_avg_pool(x), 1000) as fc
}

fn vgg16(x) {
    for i, n in enumerate([2, 2, 3, 3, 3]) { x = vgg_group(x, minimum(64 * 2 ** i, 512), n) as group[i] }
    x = flatten(x)
    for i in 0..2 { x = dropout(relu(linear(x, 4096) as fc[i])) }
    return linear(x, 1000) as head
}

fn mobilenet_v1(image) {
    x = conv_norm(image, 32, 3, 2) as stem
    for i, stage in enumerate([[64, 1], [128, 2], [128, 1], [256, 2], [256, 1], [512, 2]] + [[512, 1], [512, 1], [512, 1], [512, 1], [512, 1], [1024, 2], [1024, 1]]) {
        out, stride = stage
        x = separable(x, out, stride) as part[i]
    }
    return linear(global_avg_pool(x), 1000) as fc
}

fn mobilenet_v2(image) {
    x = conv_norm(image, 32, 3, 2, relu6) as stem
    for i, stage in enumerate([[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]) {
        wider, out, n, stride = stage
        for j in 0..n { x = inverted_residual(x, out, if j == 0 then stride else 1, wider) as "stage{i}.{j}" }
    }
    x = conv_norm(x, 1280, 1, 1, relu6) as last
    return linear(dropout(global_avg_pool(x), 0.2), 1000) as fc
}

fn convnext_tiny(image) {
    x = layer_norm(conv2d(image, 96, 4, 4, padding = "valid") as stem, eps = 1e-6) as stem_norm
    for i, n in enumerate([3, 3, 9, 3]) {
        if i > 0 { x = convnext_down(x, 96 * 2 ** i) as down[i] }
        for j in 0..n { x = convnext_block(x, drop = 0.1) as "stage{i}.{j}" }
    }
    return linear(layer_norm(global_avg_pool(x), eps = 1e-6) as norm, 1000) as fc
}

fn resnet50_eighth(image) {  # the last two stages dilated, not smaller: as many parameters
    x = stem(image)
    for i, n in enumerate([3, 4, 6, 3]) {
        for j in 0..n { x = bottleneck(x, 64 * 2 ** i, if i == 1 and j == 0 then 2 else 1, dilation = [1, 1, 2, 4][i]) as "{i}.{j}" }
    }
    assert shape(x) == [1, 28, 28, 2048], "an eighth"
    return linear(global_avg_pool(x), 1000) as fc
}

model resnet18(image: f32[1, 224, 224, 3]) { return y = resnet(stem(image), [2, 2, 2, 2], residual) as net18 }
model resnet50(image: f32[1, 224, 224, 3]) { return y = resnet(stem(image), [3, 4, 6, 3], bottleneck) as net50 }
model dilated(image: f32[1, 224, 224, 3]) { return y = resnet50_eighth(image) as eighth }
model vgg(image: f32[1, 224, 224, 3]) { return y = vgg16(image) as vgg16 }
model mobilenet1(image: f32[1, 224, 224, 3]) { return y = mobilenet_v1(image) as mobile1 }
model mobilenet2(image: f32[1, 224, 224, 3]) { return y = mobilenet_v2(image) as mobile2 }
model convnext(image: f32[1, 224, 224, 3]) { return y = convnext_tiny(image) as next }
model u(image: f32[1, 64, 64, 3]) { return y = conv2d(unet(image, [64, 128, 256, 512, 1024]) as net, 1, 1) as out }
N
counts() { # MODEL PARAMETERS
    "$NETC" inspect --model published.net "$1" 2>&1 | grep -q "^in all  *$2 " && pass || fail "$1 has not $2 parameters: $("$NETC" inspect --model published.net "$1" 2>&1 | tail -3)"
}
counts resnet18 11,689,512 # torchvision's models of these names, and the U-Net of Ronneberger et al. with batch norm
counts resnet50 25,557,032
counts dilated 25,557,032
counts vgg 138,357,544
counts mobilenet1 4,231,976
counts mobilenet2 3,504,872
counts convnext 28,589,128
counts u 31,037,633

"$NETC" inspect --params published.net 2>&1 | grep -q '^net18.layer1.0.shortcut.conv.weight ' && pass || fail "no net18.layer1.0.shortcut.conv.weight"

cat >small.net <<'N'
use nn
use conv
use vision
use optim

dim batch = 6

fn resnet(x) {
    x = residual(vgg_group(x, 4, 1) as group, 4) as first
    x = bottleneck(x, 3, 2, wider = 2) as second
    return linear(global_avg_pool(x), 3) as head
}

fn mobilenet(x) {
    x = separable(conv_norm(x, 4, 3, 2, relu6) as stem, 6) as first
    x = inverted_residual(inverted_residual(x, 6) as stay, 8, 2, 2) as narrow
    return linear(global_avg_pool(squeeze_excite(x, 4) as weigh), 3) as head
}

fn convnext(x) {
    x = convnext_block(conv2d(x, 4, 2, 2, padding = "valid") as stem, drop = 0.1) as first
    x = convnext_block(convnext_down(x, 6) as down, scale = none, size = 3) as second
    return linear(layer_norm(global_avg_pool(x)) as norm, 3) as head
}

model images(image: u8[batch, 9, 11], label: u8[batch] in 0..3) {
    x = expand(cast(image, f32), -1) / 255 - 0.5
    a = cross_entropy(resnet(x) as a, label)
    b = cross_entropy(mobilenet(x) as b, label)
    c = cross_entropy(convnext(x) as c, label)
    d = cross_entropy(mean(conv2d(unet(x, [4, 6], convs(n = 1)) as d, 3, 1) as out, [1, 2]), label)
    return loss = a + b + c + d, a, b, c, d
}

train images {
    minimize loss
    update adam(lr = 5e-3)
}
N
# 60 images of noise, a bright band at the rows of their label: raw files, without a header.
awk 'BEGIN {
    srand(1)
    for (i = 0; i < 60; i++) {
        label = i % 3; labels = labels sprintf("\\%03o", label)
        for (r = 0; r < 99; r++) printf "\\%03o", int(rand() * 80) + (int(r / 33) == label ? 120 : 0)
    }
    print labels >"labels"
}' >images
printf "$(cat images)" >image.raw
printf "$(cat labels)" >label.raw
expect 0 "" "$NETC" train small.net --data image=image.raw --data label=label.raw --steps 60 --device cpu --log log.jsonl -q
awk 'NR == 1 { first = $0 } { last = $0 } END {
    for (k = 1; k <= 4; k++) {
        name = substr("abcd", k, 1)
        for (t = 0; t < 2; t++) { s = t ? last : first; sub(".*\"" name "\":", "", s); sub(/[,}].*/, "", s); v[t] = s }
        print name, v[0], v[1]
        if (!(v[1] < 0.8 * v[0])) bad = 1
    }
    exit bad }' log.jsonl >losses && pass || fail "not all of them learn: $(tr '\n' ';' <losses)"

# In a deep network what windows are of is stored, not the windows, of which each element is as often as they meet.
cat >deep.net <<'N'
use vision
use optim
model m(x: f32[2, 6, 5, 384]) {
    for j in 0..9 { x = convnext_block(x, drop = 0.1, size = 5) as b[j] }
    return loss = mean(x * x)
}
train m {
    minimize loss
    update sgd(lr = 0.1)
}
N
expect 0 "f32[2, 6, 5, 384]" "$NETC" --emit plan deep.net --target cuda
grep -qF "f32[2, 6, 5, 5, 5, 384]" "$W/.out" && fail "windows are stored: $(grep -F "f32[2, 6, 5, 5, 5, 384]" "$W/.out" | head -2)" || pass
finish
