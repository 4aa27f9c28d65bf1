#!/usr/bin/env python3
"""The models of bench/each.net in JAX, a function of the same name each; inputs are read from the models' first lines.

usage: each_jax.py [--check] [NAME...]
Prints NAME jax and the microseconds of a call under jit, median of nine. --check: instead, NAME and the sum of the results' magnitudes.
"""
import os
import re
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

check = "--check" in sys.argv
names = [n for n in sys.argv[1:] if not n.startswith("--")]
NET = os.environ.get("NET", os.path.join(os.path.dirname(__file__), "..", "each.net"))
matmul = jnp.matmul


def picked(logits, label):
    return -jax.nn.log_softmax(logits)[label]


def mlp_gradients(x, label, w, v):
    loss = lambda w, v, a, l: picked(jax.nn.relu(a @ w) @ v, l)

    def size(a, l):
        g, h = jax.grad(loss, (0, 1))(w, v, a, l)
        return (g ** 2).sum() + (h ** 2).sum()
    return jax.vmap(size)(x, label)


def conv_gradients(x, label, k, v):
    def loss(k, a, l):
        h = jax.lax.conv_general_dilated(a[None], k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0]
        return picked(jax.nn.relu(h).mean((0, 1)) @ v, l)
    return jax.vmap(jax.grad(loss), (None, 0, 0))(k, x, label)


def embedding_gradients(x, label, e, v):
    loss = lambda e, a, l: picked(jnp.tanh(e[a]).mean(0) @ v, l)
    return jax.vmap(lambda a, l: (jax.grad(loss)(e, a, l) ** 2).sum())(x, label)


def attention_gradients(x, w):
    def loss(w, a):
        q, k, v = jnp.split(a @ w, 3, 1)
        y = jax.nn.softmax(q @ k.T * 0.125) @ v
        return (y * y).mean()
    return jax.vmap(jax.grad(loss), (None, 0))(w, x)


def recurrent_gradients(x, w):
    def loss(w, a):
        h, _ = jax.lax.scan(lambda h, r: (jnp.tanh(h @ w + r), None), jnp.zeros(64), a)
        return (h * h).mean()
    return jax.vmap(jax.grad(loss), (None, 0))(w, x)


def hessian(x, w):
    f = lambda w: jnp.log(1 + jnp.exp(jnp.tanh(x) @ w)).mean()
    return jax.hessian(f)(w)


def ensemble(x, w, v):
    def loss(a, b):
        y = jnp.tanh(x @ a) @ b
        return (y * y).mean()
    return jax.vmap(jax.grad(loss))(w, v)


def masks(x, w, v):
    def one(key):
        h = jax.nn.relu(x @ w)
        return jax.nn.softmax(jnp.where(jax.random.bernoulli(key, 0.5, h.shape), h * 2, 0) @ v)
    return jax.vmap(one)(jax.random.split(jax.random.key(0), 200)).mean(0)


def langevin(x):
    def step(z, key):
        return z - 0.01 * (z ** 3 - z) + 0.1 * jax.random.normal(key, (16384,)), None
    return jax.lax.scan(step, x, jax.random.split(jax.random.key(0), 1000))[0]


def inputs(line):
    r, found = np.random.default_rng(1), []
    for name, dtype, dims, most in re.findall(r"(\w+): (\w+)\[([0-9, ]+)\](?: in 0\.\.(\d+))?", line):
        shape = [int(d) for d in dims.split(",")]
        found.append(r.integers(0, int(most), shape).astype("i4") if most else (r.normal(size=shape) * 0.1).astype("f4"))
    return [jnp.asarray(a) for a in found]


for line in open(NET):
    model = re.match(r"model (\w+)\((.*)\) \{", line)
    if not model or (names and model[1] not in names):
        continue
    f, given = jax.jit(globals()[model[1]]), inputs(model[2])
    y = jax.block_until_ready(f(*given))
    if check:
        print(model[1], float(jnp.abs(y).sum()))
        continue
    times = []
    for _ in range(9):
        begin, n = time.perf_counter(), 0
        while time.perf_counter() - begin < 0.05:
            y = f(*given)
            n += 1
        jax.block_until_ready(y)
        times.append((time.perf_counter() - begin) / n)
    print(model[1], "jax", statistics.median(times) * 1e6, flush=True)
