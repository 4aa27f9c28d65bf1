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
F32, F64, F16, BF16, I32 = np.float32, np.float64, np.float16, jnp.bfloat16, np.int32
MILLION, MANY, SQUARE = (1000000,), (100000,), (1000, 1000)


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


# name: function, the types and shapes of its arguments, of integers with what they are below
MODELS = {
    "concat25": (lambda x: jnp.concatenate(slices(x), 1), (F32, (1024, 2000))),
    "stack25": (lambda x: jnp.stack([x[24 - i] * (i + 1.0) for i in range(25)], 1),
                (F32, (25, 4096, 20))),
    "slices_backward": (jax.grad(lambda x: sum(jnp.sum(jnp.sin(s)) for s in slices(x))),
                        (F32, (1024, 2000))),
    "rotate": (lambda x: jnp.concatenate([-x[:, :, 32:], x[:, :, :32]], 2), (F32, (64, 128, 64))),
    "padded": (lambda x: jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (F32, (32, 28, 28, 16))),
    "transposed": (lambda x: x.T, (F32, SQUARE)),
    "reversed": (lambda x: jnp.flip(x, 1), (F32, SQUARE)),
    "gather_rows": (lambda x, i: x[i], (F32, (1000, 64)), (I32, (20000,), 1000)),
    "scatter_rows": (lambda x, i: jnp.zeros((1000, 64), F32).at[i].add(x),
                     (F32, (20000, 64)), (I32, (20000,), 1000)),
    "histogram": (lambda i: jnp.zeros(1000, F32).at[i].add(F32(1)), (I32, MANY, 1000)),
    "one_hot_rows": (lambda i: jax.nn.one_hot(i, 100, dtype=F32), (I32, (10000,), 100)),
    "dynamic_rows": (lambda x, at: jax.lax.dynamic_slice(x, (at, I32(0)), (1000, 500)),
                     (F32, (2000, 500)), (I32, (), 1000)),
    "add_f32": (lambda x, y: x + y, (F32, MILLION), (F32, MILLION)),
    "div_f32": (lambda x, y: x / (y + 3), (F32, MILLION), (F32, MILLION)),
    "sqrt_f32": (lambda x: jnp.sqrt(jnp.abs(x)), (F32, MILLION)),
    "rsqrt_f32": (lambda x: jax.lax.rsqrt(jnp.abs(x) + F32(0.5)), (F32, MILLION)),
    "where_f32": (lambda x, y: jnp.where(x > y, x * 2, y), (F32, MILLION), (F32, MILLION)),
    "relu_f32": (jax.nn.relu, (F32, MILLION)),
    "round_f32": (lambda x: jnp.floor(x * 10) + jnp.round(x * 20), (F32, MILLION)),
    "mod_i32": (lambda x: x % 7 + x // 5, (I32, MILLION, 1000)),
    "arithmetic_f16": (lambda x, y: x * y + 2 * x, (F16, MILLION), (F16, MILLION)),
    "arithmetic_bf16": (lambda x, y: x * y + 2 * x, (BF16, MILLION), (BF16, MILLION)),
    "exp_f16": (jnp.exp, (F16, MILLION)),
    "to_f16": (lambda x: x.astype(F16), (F32, MILLION)),
    "from_f16": (lambda x: x.astype(F32), (F16, MILLION)),
    "to_u8": (lambda x: (x * 100).astype(np.uint8), (F32, MILLION)),
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
    "sigmoid_f32": (jax.nn.sigmoid, (F32, MILLION)),
    "gelu_f32": (lambda x: jax.nn.gelu(x, approximate=False), (F32, MILLION)),
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
    "mean_bias": (lambda x, b: jnp.mean(x + b), (F32, SQUARE), (F32, (1000,))),
    "max_apart": (lambda x: jnp.max(x, (2, 4)), (F32, (8, 16, 32, 16, 32))),
    "softmax_rows": (jax.nn.softmax, (F32, (1000, 1000))),
    "norm_rows": (lambda x: (x - jnp.mean(x, 1, keepdims=True)) * jax.lax.rsqrt(
        jnp.var(x, 1, keepdims=True) + 1e-5), (F32, (1000, 1000))),
    "moments_apart": (lambda x: jnp.var(x, (0, 2)), (F32, (256, 56, 56))),
    "cumsum_rows": (lambda x: jnp.cumsum(x, 1), (F32, (1000, 1000))),
    "argmax_rows": (lambda x: jnp.argmax(x, 1), (F32, (1000, 1000))),
    "sum_all": (jnp.sum, (F32, SQUARE)),
    "sum_rows": (lambda x: jnp.sum(x, 1), (F32, SQUARE)),
    "sum_columns": (lambda x: jnp.sum(x, 0), (F32, SQUARE)),
    "max_rows": (lambda x: jnp.max(x, 1), (F32, SQUARE)),
    "matrix_vector": (lambda a, x: a @ x, (F32, (2000, 2000)), (F32, (2000,))),
    "vector_matrix": (lambda x, a: x @ a, (F32, (1, 2000)), (F32, (2000, 2000))),
    "matmul_500": (lambda a, b: a @ b, (F32, (500, 500)), (F32, (500, 500))),
    "matmul_batches": (lambda a, b: a @ b, (F32, (64, 48, 32)), (F32, (64, 32, 48))),
    "rounds": (rounds, (F32, (512, 16, 32)), (F32, (32, 32))),
    "lstm_backward": (jax.grad(lstm, (0, 1)), (F32, (64, 32, 256)), (F32, (64, 256))),
}


def microseconds(name):
    f, *args = MODELS[name]
    # As `netc bench` makes inputs up: numbers around 0.
    x = [jnp.asarray(rng.integers(0, *below, shape) if below else rng.uniform(-1, 1, shape), t)
         for t, shape, *below in args]
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
