#!/usr/bin/env python3
"""The models of bench/cpu_ops.net in JAX on the CPU, a function of the same name each.

usage: cpu_ops_jax.py [NAME...]   prints "NAME microseconds" (the median of 15) a line
"""
import os
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
KEY = jax.random.key(0)
F32, F64 = np.float32, np.float64
MILLION, MANY = (1000000,), (100000,)


def slices(x):
    return [x[:, i * 80:i * 80 + 80] * (i + 1.0) for i in range(25)]


def rounds(x, w):
    return jax.lax.scan(lambda h, t: (jnp.tanh(h @ w + t),) * 2, jnp.zeros((16, 32), F32), x)[1]


def lstm(x, w):
    def cell(c, t):
        h, s = c
        i, f, g, o = jnp.split(t + h @ w, 4, axis=1)
        s = jax.nn.sigmoid(f) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(s)
        return (h, s), h
    z = jnp.zeros((32, 64), F32)
    return jnp.sum(jax.lax.scan(cell, (z, z), x)[1])


# name: function, the types and shapes of its arguments
MODELS = {
    "concat25": (lambda x: jnp.concatenate(slices(x), 1), (F32, (1024, 2000))),
    "stack25": (lambda x: jnp.stack([x[24 - i] * (i + 1.0) for i in range(25)], 1),
                (F32, (25, 4096, 20))),
    "slices_backward": (jax.grad(lambda x: sum(jnp.sum(jnp.sin(s)) for s in slices(x))),
                        (F32, (1024, 2000))),
    "rotate": (lambda x: jnp.concatenate([-x[:, :, 32:], x[:, :, :32]], 2), (F32, (64, 128, 64))),
    "padded": (lambda x: jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (F32, (32, 28, 28, 16))),
    "sort30000": (jnp.sort, (F32, (30000,))),
    "argsort_rows": (lambda x: jnp.argsort(x, axis=1), (F32, (64, 4096))),
    "sin_f32": (lambda x: jnp.sin(x * 10), (F32, MILLION)),
    "cos_f32": (lambda x: jnp.cos(x * 10), (F32, MILLION)),
    "exp_f32": (jnp.exp, (F32, MILLION)),
    "log_f32": (lambda x: jnp.log(jnp.abs(x) + 0.5), (F32, MILLION)),
    "tanh_f32": (jnp.tanh, (F32, MILLION)),
    "erf_f32": (jax.scipy.special.erf, (F32, MILLION)),
    "expm1_f32": (jnp.expm1, (F32, MILLION)),
    "log1p_f32": (lambda x: jnp.log1p(jnp.abs(x)), (F32, MILLION)),
    "pow_f32": (lambda x: jnp.power(jnp.abs(x) + 0.5, F32(1.7)), (F32, MILLION)),
    "cube_f32": (lambda x: x ** 3, (F32, MILLION)),
    "exp_f64": (jnp.exp, (F64, MANY)),
    "log_f64": (lambda x: jnp.log(jnp.abs(x) + 0.5), (F64, MANY)),
    "tanh_f64": (jnp.tanh, (F64, MANY)),
    "sin_f64": (lambda x: jnp.sin(x * 10), (F64, MANY)),
    "erf_f64": (jax.scipy.special.erf, (F64, MANY)),
    "expm1_f64": (jnp.expm1, (F64, MANY)),
    "log1p_f64": (lambda x: jnp.log1p(jnp.abs(x)), (F64, MANY)),
    "pow_f64": (lambda x: jnp.power(jnp.abs(x) + 0.5, 1.7), (F64, MANY)),
    "sigmoid_f64": (jax.nn.sigmoid, (F64, MANY)),
    "normals": (lambda x: x + jax.random.normal(KEY, x.shape, F32), (F32, (256, 1000))),
    "uniforms": (lambda x: x + jax.random.uniform(KEY, x.shape, F32), (F32, (256, 1000))),
    "mean_bias": (lambda x, b: jnp.mean(x + b), (F32, (1000, 1000)), (F32, (1000,))),
    "max_apart": (lambda x: jnp.max(x, (2, 4)), (F32, (8, 16, 32, 16, 32))),
    "softmax_rows": (jax.nn.softmax, (F32, (1000, 1000))),
    "norm_rows": (lambda x: (x - jnp.mean(x, 1, keepdims=True)) * jax.lax.rsqrt(
        jnp.var(x, 1, keepdims=True) + 1e-5), (F32, (1000, 1000))),
    "moments_apart": (lambda x: jnp.var(x, (0, 2)), (F32, (256, 56, 56))),
    "cumsum_rows": (lambda x: jnp.cumsum(x, 1), (F32, (1000, 1000))),
    "argmax_rows": (lambda x: jnp.argmax(x, 1), (F32, (1000, 1000))),
    "rounds": (rounds, (F32, (512, 16, 32)), (F32, (32, 32))),
    "lstm_backward": (jax.grad(lstm, (0, 1)), (F32, (64, 32, 256)), (F32, (64, 256))),
}


def microseconds(name):
    f, *args = MODELS[name]
    # As `netc bench` makes inputs up: numbers around 0.
    x = [jnp.asarray(rng.uniform(-1, 1, shape), t) for t, shape in args]
    f = jax.jit(f)
    jax.block_until_ready(f(*x))
    times, least = [], 0.01
    for _ in range(15):
        n, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < least:
            jax.block_until_ready(f(*x))
            n += 1
        times.append((time.perf_counter() - begin) / n)
    return statistics.median(times) * 1e6


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        print(name, f"{microseconds(name):.1f}", flush=True)
