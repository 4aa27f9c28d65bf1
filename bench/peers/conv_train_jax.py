#!/usr/bin/env python3
"""Training steps of convolutional networks in JAX on the CPU, f32: samples/mnist/lenet.net (AdamW) and
samples/cifar10/resnet18.net (SGD with Nesterov's momentum, random crop and flip).

usage: conv_train_jax.py NAME BATCH [REPEATS]   NAME: lenet, resnet18; prints the median microseconds of a step
"""
import os
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
F32 = np.float32


def uniform(shape, terms):
    return jnp.asarray(rng.uniform(-1, 1, shape) / np.sqrt(terms), F32)


def conv(x, w, stride=1, padding="SAME"):  # (B, H, W, C) with (size, size, C, out)
    return jax.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def cross_entropy(z, y):
    return jnp.mean(jax.nn.logsumexp(z, axis=1) - jnp.take_along_axis(z, y[:, None], 1)[:, 0])


# -- LeNet ----------------------------------------------------------------------------------------
def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def lenet_params():
    def layer(shape):
        terms = np.prod(shape[:-1])
        return uniform(shape, terms), uniform(shape[-1:], terms)
    return [layer(s) for s in ((5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10))]


def lenet(params, image, label, key):
    x = image.astype(F32)[..., None] / 255
    for (w, b), padding in zip(params[:2], ("SAME", "VALID")):
        x = max_pool(jax.nn.relu(conv(x, w, 1, padding) + b))
    x = x.reshape(len(x), -1)
    for w, b in params[2:4]:
        x = jax.nn.relu(x @ w + b)
    z = x @ params[4][0] + params[4][1]
    return cross_entropy(z, label), jnp.mean(jnp.argmax(z, 1) == label)


def adamw(params, moments, g, t):
    m, v = moments
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
    return jax.tree.map(lambda p, m, v: p - 3e-3 * (m / c1 / (jnp.sqrt(v / c2) + 1e-8) + 0.01 * p), params, m, v), (m, v)


# -- ResNet-18 ------------------------------------------------------------------------------------
def part_params(c, out, size):
    w = jnp.asarray(rng.normal(0, np.sqrt(2 / (c * size * size)), (size, size, c, out)), F32)
    return {"w": w, "scale": jnp.ones(out, F32), "shift": jnp.zeros(out, F32)}


def part(p, x, stride, seen):
    y = conv(x, p["w"], stride)
    mean = jnp.mean(y, (0, 1, 2))
    d = y - mean
    var = jnp.mean(d * d, (0, 1, 2))
    seen.append((mean, var))
    return d * (jax.lax.rsqrt(var + 1e-5) * p["scale"]) + p["shift"]


STRIDES = [1, 1, 2, 1, 2, 1, 2, 1]


def resnet_params():
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = []
    for c, out, stride in zip(widths, widths[1:], STRIDES):
        b = {"first": part_params(c, out, 3), "second": part_params(out, out, 3)}
        if stride != 1:
            b["shortcut"] = part_params(c, out, 1)
        blocks.append(b)
    return {"stem": part_params(3, 64, 3), "blocks": blocks, "head": (uniform((512, 10), 512), uniform(10, 512))}


def augmented(image, key):
    x = jnp.pad(image.transpose(0, 2, 3, 1), ((0, 0), (4, 4), (4, 4), (0, 0)))
    a, b = jax.random.split(key)
    at, turned = jax.random.randint(a, (len(x), 2), 0, 9), jax.random.bernoulli(b, 0.5, (len(x), 1, 1, 1))
    x = jax.vmap(lambda x, at: jax.lax.dynamic_slice(x, (at[0], at[1], 0), (32, 32, 3)))(x, at)
    return jnp.where(turned, x[:, :, ::-1], x)


def resnet(params, image, label, key):
    seen = []
    x = augmented(image, key).astype(F32) / 127.5 - 1
    x = jax.nn.relu(part(params["stem"], x, 1, seen))
    for p, stride in zip(params["blocks"], STRIDES):
        h = jax.nn.relu(part(p["first"], x, stride, seen))
        h = part(p["second"], h, 1, seen)
        x = jax.nn.relu(h + (part(p["shortcut"], x, stride, seen) if "shortcut" in p else x))
    z = jnp.mean(x, (1, 2)) @ params["head"][0] + params["head"][1]
    return cross_entropy(z, label), (jnp.mean(jnp.argmax(z, 1) == label), seen)


def sgd(params, moments, g, t):
    g = jax.tree.map(lambda g, p: g + 5e-4 * p, g, params)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, moments[0], g)
    return jax.tree.map(lambda p, g, m: p - 0.1 * (g + 0.9 * m), params, g, m), (m, moments[1])


# name: loss, parameters, update, one image, classes
MODELS = {"lenet": (lenet, lenet_params, adamw, (28, 28)), "resnet18": (resnet, resnet_params, sgd, (3, 32, 32))}


def microseconds(name, batch, repeats):
    loss_of, params_of, update, shape = MODELS[name]
    params = params_of()
    zeros = jax.tree.map(jnp.zeros_like, params)
    moments = (zeros, jax.tree.map(jnp.copy, zeros) if update is adamw else ())
    running = []
    if update is sgd:  # of batch norm: means and variances as they move along
        seen = jax.eval_shape(lambda p, i, y, k: loss_of(p, i, y, k)[1][1], params, jnp.zeros((batch,) + shape, np.uint8),
                              jnp.zeros(batch, jnp.int32), jax.random.key(0))
        running = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), seen)
    image = jnp.asarray(rng.integers(0, 256, (batch,) + shape), np.uint8)
    label = jnp.asarray(rng.integers(0, 10, batch), jnp.int32)

    def step(params, moments, running, t, image, label):
        (loss, more), g = jax.value_and_grad(loss_of, has_aux=True)(params, image, label, jax.random.key(t))
        if running:
            running = jax.tree.map(lambda r, s: 0.9 * r + 0.1 * s, running, more[1])
        params, moments = update(params, moments, g, t + 1.0)
        return params, moments, running, t + 1, loss

    one = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    state = params, moments, running, jnp.zeros((), jnp.int32)

    def seconds(n):
        nonlocal state
        begin = time.perf_counter()
        for _ in range(n):
            *state, loss = one(*state, image, label)
        jax.block_until_ready(loss)
        return (time.perf_counter() - begin) / n

    seconds(2)
    n = max(1, int(0.1 / seconds(1)))
    return statistics.median(seconds(n) for _ in range(repeats)) * 1e6


if __name__ == "__main__":
    print(f"{microseconds(sys.argv[1], int(sys.argv[2]), int((sys.argv + [15])[3])):.1f}")
