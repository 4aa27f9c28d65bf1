#!/usr/bin/env python3
"""The models of bench/cpu_networks.net in JAX on the CPU, a function of the same name each: losses with all gradients.

usage: cpu_networks_jax.py [NAME...]   prints "NAME netc JAX", microseconds of CPU time by turns (one_core.py)
"""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np

from one_core import Model, agree, by_turns

rng = np.random.default_rng(0)


def cross_entropy(z, y):
    return jnp.mean(jax.nn.logsumexp(z, axis=-1) - jnp.take_along_axis(z, y[..., None], -1)[..., 0])


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


def conv(x, w, stride=1):  # (B, H, W, C) with (out, size, size, C)
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "OHWI", "NHWC"))


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def mlp(x, label, w1, b1, w2, b2):
    return cross_entropy(jax.nn.relu(x @ w1 + b1) @ w2 + b2, label)


def mlp_wide(x, label, w1, w2, w3):
    return cross_entropy(gelu(gelu(x @ w1) @ w2) @ w3, label)


def lenet(x, label, c1, c2, w1, w2, w3):
    for c in (c1, c2):
        x = max_pool(jax.nn.relu(conv(x, c)))
    h = x.reshape(len(x), -1)
    return cross_entropy(jax.nn.relu(jax.nn.relu(h @ w1) @ w2) @ w3, label)


def lstm(x, label, w_in, w_back, bias, out):
    def cell(carry, step):
        h, c = carry
        i, f, g, o = jnp.split(step + h @ w_back, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None
    zeros = jnp.zeros((64, 96), np.float32)
    return cross_entropy(jax.lax.scan(cell, (zeros, zeros), x @ w_in + bias)[0][0] @ out, label)


def norm(x):
    return (x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


def gpt(text, table, qkv, out, up, down):
    def heads(x):
        return x.reshape(8, 64, 4, 32).transpose(0, 2, 1, 3)
    x, seen = table[text[:, :64]], jnp.tril(jnp.ones((64, 64), bool))
    for i in range(2):
        q, k, v = map(heads, jnp.split(norm(x) @ qkv[i], 3, axis=-1))
        s = jnp.where(seen, q @ k.swapaxes(2, 3) / np.float32(np.sqrt(32)), -jnp.inf)
        x = x + (jax.nn.softmax(s) @ v).transpose(0, 2, 1, 3).reshape(8, 64, 128) @ out[i]
        x = x + gelu(norm(x) @ up[i]) @ down[i]
    return cross_entropy(norm(x) @ table.T, text[:, 1:])


def twice(x, a, b):
    return jax.nn.relu(conv(jax.nn.relu(conv(x, a)), b))


def unet(x, mask, a, b, c, d, e, f, g, h, i, j, o):
    def joined(x, low, a, b):
        return twice(jnp.concatenate([x, low.repeat(2, 1).repeat(2, 2)], -1), a, b)
    top = twice(x, a, b)
    middle = twice(max_pool(top), c, d)
    bottom = twice(max_pool(middle), e, f)
    y = joined(top, joined(middle, bottom, g, h), i, j)
    return jnp.mean((conv(y, o) - mask) ** 2)


def resnet(x, label, stem, a, b, c, d, e, f, past, w):
    def normed(x):
        return (x - jnp.mean(x, (0, 1, 2))) * jax.lax.rsqrt(jnp.var(x, (0, 1, 2)) + 1e-5)

    def both(x, a, b, stride):
        return normed(conv(jax.nn.relu(normed(conv(x, a, stride))), b))
    y = jax.nn.relu(normed(conv(x, stem)))
    y = jax.nn.relu(y + both(y, a, b, 1))
    y = jax.nn.relu(y + both(y, c, d, 1))
    y = jax.nn.relu(normed(conv(y, past, 2)) + both(y, e, f, 2))
    return cross_entropy(jnp.mean(y, (1, 2)) @ w, label)


# name: the loss, the first input that has a gradient, shapes; of integers with what they are below
DIGITS = ((64,), 10)
MODELS = {
    "mlp": (mlp, 2, (128, 784), ((128,), 10), (784, 128), (128,), (128, 10), (10,)),
    "mlp_wide": (mlp_wide, 2, (512, 784), ((512,), 10), (784, 512), (512, 512), (512, 10)),
    "lenet": (lenet, 2, (64, 28, 28, 1), DIGITS, (6, 5, 5, 1), (16, 5, 5, 6), (784, 120), (120, 84), (84, 10)),
    "lstm": (lstm, 2, (28, 64, 28), DIGITS, (28, 384), (96, 384), (384,), (96, 10)),
    "gpt": (gpt, 1, ((8, 65), 128), (128, 128), (2, 128, 384), (2, 128, 128), (2, 128, 512), (2, 512, 128)),
    "unet": (unet, 2, (8, 32, 32, 3), (8, 32, 32, 1), *((n, 3, 3, c) for n, c in (
        (8, 3), (8, 8), (16, 8), (16, 16), (32, 16), (32, 32), (16, 48), (16, 16), (8, 24), (8, 8))), (1, 1, 1, 8)),
    "resnet": (resnet, 2, (8, 32, 32, 3), ((8,), 10), (64, 3, 3, 3), *4 * ((64, 3, 3, 64),), (128, 3, 3, 64),
               (128, 3, 3, 128), (128, 1, 1, 64), (128, 10)),
}


def made(shape, weight):
    if isinstance(shape[0], tuple):
        return jnp.asarray(rng.integers(0, shape[1], shape[0]), np.int32)
    terms = np.prod(shape[1:] if len(shape) == 4 else shape[-2:-1]) if weight else 1
    return jnp.asarray(rng.uniform(-1, 1, shape) * np.sqrt(3 / max(terms, 1)), np.float32)


if __name__ == "__main__":
    model = Model("bench/cpu_networks.net")
    for name in sys.argv[1:] or MODELS:
        loss, first, *shapes = MODELS[name]
        x = [made(s, i >= first) for i, s in enumerate(shapes)]
        f = jax.jit(jax.value_and_grad(loss, tuple(range(first, len(x)))))
        ours, theirs = model.call(name, x), lambda: jax.block_until_ready(f(*x))
        agree(name, ours(), jax.tree.leaves(theirs()))
        print(name, *(f"{t:.2f}" for t in by_turns(ours, theirs)), flush=True)
