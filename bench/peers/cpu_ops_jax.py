#!/usr/bin/env python3
"""The models of bench/cpu_ops.net in JAX on the CPU, a function of the same name each.

usage: cpu_ops_jax.py [--core] [NAME...]   prints "NAME microseconds" (the median of 15) a line; with --core netc's
                                           and JAX's microseconds of CPU time, by turns (one_core.py)
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
MILLION, MANY, SQUARE, SHORT = (1000000,), (100000,), (1000, 1000), (100000, 10)


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


def norm(x):
    return (x - jnp.mean(x, 1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, 1, keepdims=True) + 1e-5)


def normalize(x, axis):
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis, keepdims=True) + 1e-12)


def cross_entropy(x, i):
    return jnp.mean(jax.nn.logsumexp(x, axis=1) - jnp.take_along_axis(x, i[:, None], 1)[:, 0])


def distances(x, y):
    d = x[:, None] - y[None]
    return jnp.sum(jnp.sqrt(jnp.sum(d * d, 2) + 1e-6))


def convolve(x, w, axes, groups=1):
    order = ("NWC", "OWI", "NWC") if axes == 1 else ("NHWC", "OHWI", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (1,) * axes, "SAME", dimension_numbers=order, feature_group_count=groups)


def pool(x, n, start, step):
    return jax.lax.reduce_window(x, start, step, (1, n, n, 1), (1, n, n, 1), "VALID")


def bce(x, y):
    return jnp.mean(jnp.maximum(x, 0) - x * y + jnp.log1p(jnp.exp(-jnp.abs(x))))


def huber(x, y):
    d = jnp.abs(x - y)
    return jnp.mean(jnp.where(d < 1, 0.5 * d * d, d - 0.5))


def adam(p, g, m, v):
    m, v = F32(0.9) * m + F32(0.1) * g, F32(0.999) * v + F32(0.001) * g * g
    return p - F32(0.001) * m / (jnp.sqrt(jnp.abs(v)) + F32(1e-8)), m, v


def momentum(p, g, m):
    m = BF16(0.9) * m + g
    return p - BF16(0.01) * m, m


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
    "transposed_bf16": (lambda x: x.T, (BF16, SQUARE)),
    "transposed_f64": (lambda x: x.T, (F64, (700, 700))),
    "transposed_210": (lambda x: x.transpose(2, 1, 0), (F32, (100, 100, 100))),
    "transposed_3102": (lambda x: x.transpose(3, 1, 0, 2), (F32, (32, 30, 40, 20))),
    "transposed_0312": (lambda x: x.transpose(0, 3, 1, 2), (F32, (32, 56, 56, 16))),
    "reversed": (lambda x: jnp.flip(x, 1), (F32, SQUARE)),
    "gather_rows": (lambda x, i: x[i], (F32, (1000, 64)), (I32, (20000,), 1000)),
    "scatter_rows": (lambda x, i: jnp.zeros((1000, 64), F32).at[i].add(x),
                     (F32, (20000, 64)), (I32, (20000,), 1000)),
    "histogram": (lambda i: jnp.zeros(1000, F32).at[i].add(F32(1)), (I32, MANY, 1000)),
    "one_hot_rows": (lambda i: jax.nn.one_hot(i, 100, dtype=F32), (I32, (10000,), 100)),
    "dynamic_rows": (lambda x, at: jax.lax.dynamic_slice(x, (at, I32(0)), (1000, 500)),
                     (F32, (2000, 500)), (I32, (), 1000)),
    "rows_backward": (jax.grad(lambda x, i: jnp.sum(jnp.sin(x[i]))), (F32, (1000, 64)), (I32, (5000,), 1000)),
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
    "mul_f16": (lambda x, y: x * y, (F16, MILLION), (F16, MILLION)),
    "add_f16": (lambda x, y: x + y, (F16, MILLION), (F16, MILLION)),
    "maximum_f16": (jnp.maximum, (F16, MILLION), (F16, MILLION)),
    "mul_bf16": (lambda x, y: x * y, (BF16, MILLION), (BF16, MILLION)),
    "mul_f64": (lambda x, y: x * y, (F64, (500000,)), (F64, (500000,))),
    "to_bf16": (lambda x: x.astype(BF16), (F32, MILLION)),
    "from_u8": (lambda x: x.astype(F32) / 255, (np.uint8, MILLION, 256)),
    "add_i32": (lambda x, y: x + y, (I32, MILLION, 1000), (I32, MILLION, 1000)),
    "clamp_f32": (lambda x: jnp.clip(x, -1, 1), (F32, MILLION)),
    "clamp_f16": (lambda x: jnp.clip(x, -1, 1), (F16, MILLION)),
    "clamp_f64": (lambda x: jnp.clip(x, -1, 1), (F64, (500000,))),
    "leaky_f32": (jax.nn.leaky_relu, (F32, MILLION)),
    "sign_f32": (lambda x: jnp.sign(x) * jnp.abs(x), (F32, MILLION)),
    "less_f32": (lambda x, y: x < y, (F32, MILLION), (F32, MILLION)),
    "sort30000": (jnp.sort, (F32, (30000,))),
    "argsort_rows": (lambda x: jnp.argsort(x, axis=1), (F32, (64, 4096))),
    "sort_columns": (lambda x: jnp.sort(x, axis=0), (F32, (1000, 256))),
    "sort_short": (lambda x: jnp.sort(x, axis=1), (F32, (10000, 16))),
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
    "sin_plain": (jnp.sin, (F32, MILLION)),
    "silu_f32": (jax.nn.silu, (F32, MILLION)),
    "gelu_tanh_f32": (lambda x: jax.nn.gelu(x, approximate=True), (F32, MILLION)),
    "softplus_f32": (jax.nn.softplus, (F32, MILLION)),
    "mish_f32": (jax.nn.mish, (F32, MILLION)),
    "elu_f32": (jax.nn.elu, (F32, MILLION)),
    "pow_of": (lambda x, y: jnp.power(jnp.abs(x) + F32(0.1), y), (F32, MILLION), (F32, MILLION)),
    "tanh_f16": (jnp.tanh, (F16, MILLION)),
    "gelu_bf16": (lambda x: jax.nn.gelu(x, approximate=True), (BF16, MILLION)),
    "exp_f64": (jnp.exp, (F64, MANY)),
    "log_f64": (lambda x: jnp.log(jnp.abs(x) + 0.5), (F64, MANY)),
    "tanh_f64": (jnp.tanh, (F64, MANY)),
    "sin_f64": (lambda x: jnp.sin(x * 10), (F64, MANY)),
    "erf_f64": (jax.scipy.special.erf, (F64, MANY)),
    "expm1_f64": (jnp.expm1, (F64, MANY)),
    "log1p_f64": (lambda x: jnp.log1p(jnp.abs(x)), (F64, MANY)),
    "pow_f64": (lambda x: jnp.power(jnp.abs(x) + 0.5, 1.7), (F64, MANY)),
    "sigmoid_f64": (jax.nn.sigmoid, (F64, MANY)),
    "cos_f64": (lambda x: jnp.cos(x * 10), (F64, MANY)),
    "sqrt_f64": (lambda x: jnp.sqrt(jnp.abs(x)), (F64, MANY)),
    "dropout_f32": (lambda x: jnp.where(jax.random.bernoulli(KEY, 0.5, x.shape), x * 2, F32(0)), (F32, MILLION)),
    "normals": (lambda x: x + jax.random.normal(KEY, x.shape, F32), (F32, (256, 1000))),
    "uniforms": (lambda x: x + jax.random.uniform(KEY, x.shape, F32), (F32, (256, 1000))),
    "mean_bias": (lambda x, b: jnp.mean(x + b), (F32, SQUARE), (F32, (1000,))),
    "max_apart": (lambda x: jnp.max(x, (2, 4)), (F32, (8, 16, 32, 16, 32))),
    "softmax_rows": (jax.nn.softmax, (F32, (1000, 1000))),
    "norm_rows": (norm, (F32, SQUARE)),
    "moments_apart": (lambda x: jnp.var(x, (0, 2)), (F32, (256, 56, 56))),
    "cumsum_rows": (lambda x: jnp.cumsum(x, 1), (F32, (1000, 1000))),
    "argmax_rows": (lambda x: jnp.argmax(x, 1), (F32, (1000, 1000))),
    "sum_all": (jnp.sum, (F32, SQUARE)),
    "sum_rows": (lambda x: jnp.sum(x, 1), (F32, SQUARE)),
    "sum_columns": (lambda x: jnp.sum(x, 0), (F32, SQUARE)),
    "max_rows": (lambda x: jnp.max(x, 1), (F32, SQUARE)),
    "max_short": (lambda x: jnp.max(x, 1), (F32, SHORT)),
    "max_columns": (lambda x: jnp.max(x, 0), (F32, SQUARE)),
    "max_tall": (lambda x: jnp.max(x, 0), (F32, (10000, 100))),
    "max_outer": (lambda x: jnp.max(x, (0, 2)), (F32, (32, 100, 300))),
    "max_f16": (lambda x: jnp.max(x, 1), (F16, SQUARE)),
    "max_bf16": (lambda x: jnp.max(x, 1), (BF16, SQUARE)),
    "max_columns_f16": (lambda x: jnp.max(x, 0), (F16, SQUARE)),
    "max_columns_bf16": (lambda x: jnp.max(x, 0), (BF16, SQUARE)),
    "max_f64": (lambda x: jnp.max(x, 1), (F64, (500, 1000))),
    "max_i32": (lambda x: jnp.max(x, 1), (I32, SQUARE, 1000)),
    "max_bool": (lambda x: jnp.max(x, 1), (np.bool_, SQUARE, 2)),
    "min_columns_bool": (lambda x: jnp.min(x, 0), (np.bool_, SQUARE, 2)),
    "min_all": (jnp.min, (F32, MILLION)),
    "max_slope": (jax.grad(lambda x: jnp.sum(jnp.max(x, 1))), (F32, SQUARE)),
    "argmax_short": (lambda x: jnp.argmax(x, 1), (F32, SHORT)),
    "argmax_columns": (lambda x: jnp.argmax(x, 0), (F32, SQUARE)),
    "argmax_bf16": (lambda x: jnp.argmax(x, 1), (BF16, SQUARE)),
    "sum_f16": (lambda x: jnp.sum(x, 1), (F16, SQUARE)),
    "sum_bf16": (lambda x: jnp.sum(x, 1), (BF16, SQUARE)),
    "sum_f64": (jnp.sum, (F64, MILLION)),
    "prod_rows": (lambda x: jnp.prod(x, 1), (F32, SQUARE)),
    "variance_rows": (lambda x: jnp.var(x, 1), (F32, SQUARE)),
    "cumsum_columns": (lambda x: jnp.cumsum(x, 0), (F32, SQUARE)),
    "softmax_columns": (lambda x: jax.nn.softmax(x, 0), (F32, SQUARE)),
    "softmax_tall": (lambda x: jax.nn.softmax(x, 0), (F32, (10000, 100))),
    "softmax_columns_f64": (lambda x: jax.nn.softmax(x, 0), (F64, (500, 500))),
    "softmax_columns_bf16": (lambda x: jax.nn.softmax(x, 0), (BF16, SQUARE)),
    "softmax_columns_f16": (lambda x: jax.nn.softmax(x, 0), (F16, SQUARE)),
    "softmax_f64": (jax.nn.softmax, (F64, (500, 1000))),
    "softmax_bf16": (jax.nn.softmax, (BF16, SQUARE)),
    "softmax_f16": (jax.nn.softmax, (F16, SQUARE)),
    "softmax_short": (jax.nn.softmax, (F32, SHORT)),
    "softmax_masked": (lambda x, m: jax.nn.softmax(jnp.where(m, x, F32(-1e9))), (F32, SQUARE), (np.bool_, SQUARE, 2)),
    "softmax_slope": (jax.grad(lambda x, y: jnp.sum(jax.nn.log_softmax(x, 0) * y)), (F32, SQUARE), (F32, SQUARE)),
    "log_softmax_rows": (jax.nn.log_softmax, (F32, SQUARE)),
    "log_softmax_short": (jax.nn.log_softmax, (F32, SHORT)),
    "logsumexp_rows": (lambda x: jax.nn.logsumexp(x, 1), (F32, SQUARE)),
    "logsumexp_columns": (lambda x: jax.nn.logsumexp(x, 0), (F32, SQUARE)),
    "logsumexp_short": (lambda x: jax.nn.logsumexp(x, 1), (F32, SHORT)),
    "cross_entropy_slope": (jax.grad(cross_entropy), (F32, SQUARE), (I32, (1000,), 1000)),
    "norm_short": (norm, (F32, SHORT)),
    "norm_bf16": (lambda x: norm(x.astype(F32)).astype(BF16), (BF16, SQUARE)),
    "normalize_rows": (lambda x: normalize(x, 1), (F32, SQUARE)),
    "normalize_columns": (lambda x: normalize(x, 0), (F32, SQUARE)),
    "distances_slope": (jax.grad(distances), (F32, (300, 16)), (F32, (300, 16))),
    "matrix_vector": (lambda a, x: a @ x, (F32, (2000, 2000)), (F32, (2000,))),
    "vector_matrix": (lambda x, a: x @ a, (F32, (1, 2000)), (F32, (2000, 2000))),
    "matmul_500": (lambda a, b: a @ b, (F32, (500, 500)), (F32, (500, 500))),
    "matmul_batches": (lambda a, b: a @ b, (F32, (64, 48, 32)), (F32, (64, 32, 48))),
    "matmul_f64": (jnp.matmul, (F64, (300, 300)), (F64, (300, 300))),
    "matmul_f16": (jnp.matmul, (F16, (256, 256)), (F16, (256, 256))),
    "matmul_bf16": (jnp.matmul, (BF16, (256, 256)), (BF16, (256, 256))),
    "long_3x3": (jnp.matmul, (F32, (3, 100000)), (F32, (100000, 3))),
    "long_8x8": (jnp.matmul, (F32, (8, 50000)), (F32, (50000, 8))),
    "tall_3x16": (jnp.matmul, (F32, (100000, 3)), (F32, (3, 16))),
    "tall_64x4": (jnp.matmul, (F32, (50000, 64)), (F32, (64, 4))),
    "tall_64x1": (jnp.matmul, (F32, (50000, 64)), (F32, (64, 1))),
    "tall_64x3": (jnp.matmul, (F32, (50000, 64)), (F32, (64, 3))),
    "outer_4": (jnp.matmul, (F32, (1000, 4)), (F32, (4, 1000))),
    "outer_8": (jnp.matmul, (F32, (1000, 8)), (F32, (8, 1000))),
    "outer_16": (jnp.matmul, (F32, (1000, 16)), (F32, (16, 1000))),
    "thin_10": (jnp.matmul, (F32, (1000, 1000)), (F32, (1000, 10))),
    "thin_16": (jnp.matmul, (F32, (512, 512)), (F32, (512, 16))),
    "flat_16": (jnp.matmul, (F32, (16, 512)), (F32, (512, 512))),
    "thousand_8x8": (jnp.matmul, (F32, (1000, 8, 8)), (F32, (1000, 8, 8))),
    "outer_8_f64": (jnp.matmul, (F64, (500, 8)), (F64, (8, 500))),
    "outer_16_f64": (jnp.matmul, (F64, (500, 16)), (F64, (16, 500))),
    "long_3x3_f64": (jnp.matmul, (F64, (3, 100000)), (F64, (100000, 3))),
    "thin_8_f64": (jnp.matmul, (F64, (500, 500)), (F64, (500, 8))),
    "tall_4_f64": (jnp.matmul, (F64, (20000, 64)), (F64, (64, 4))),
    "matrix_vector_f64": (jnp.matmul, (F64, (1000, 1000)), (F64, (1000, 1))),
    "matmul_i32": (jnp.matmul, (I32, (128, 128), 1000), (I32, (128, 128), 1000)),
    "long_turned": (lambda a, b: a.T @ b, (F32, SHORT), (F32, SHORT)),
    "eigh_16": (lambda x: jnp.linalg.eigh(x + x.T), (F32, (16, 16))),
    "rounds": (rounds, (F32, (512, 16, 32)), (F32, (32, 32))),
    "lstm_backward": (jax.grad(lstm, (0, 1)), (F32, (64, 32, 256)), (F32, (64, 256))),
    "sum_middle": (lambda x: jnp.sum(x, 1), (F32, (64, 100, 77))),
    "sum_outer_two": (lambda x: jnp.sum(x, (0, 1)), (F32, (30, 40, 500))),
    "max_middle_f64": (lambda x: jnp.max(x, 1), (F64, (40, 90, 51))),
    "min_short_f16": (lambda x: jnp.min(x, 1), (F16, (20000, 24))),
    "mean_first_bf16": (lambda x: jnp.mean(x, 0), (BF16, (129, 3000))),
    "sum_i32_rows": (lambda x: jnp.sum(x, 1), (I32, (999, 257), 1000)),
    "transposed_odd": (lambda x: x.T, (F32, (777, 333))),
    "transposed_i32": (lambda x: x.transpose(1, 2, 0), (I32, (50, 60, 70), 1000)),
    "concat_columns": (lambda x, y, z: jnp.concatenate([x, y, z], 1),
                       (F32, (2000, 30)), (F32, (2000, 17)), (F32, (2000, 5))),
    "gather_elements": (lambda x, i: x[i], (F32, (100000,)), (I32, (50000,), 100000)),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, 1), (F32, (1000, 200)), (I32, (1000, 20), 200)),
    "cumsum_i32": (jnp.cumsum, (I32, (100000,), 10)),
    "cummax_rows": (lambda x: jax.lax.cummax(x, 1), (F32, (100, 512))),
    "sort_f64": (lambda x: jnp.sort(x, 1), (F64, (100, 200))),
    "argsort_i32": (jnp.argsort, (I32, (5000,), 100000)),
    "conv1d_small": (lambda x, w: convolve(x, w, 1), (F32, (8, 200, 16)), (F32, (24, 5, 16))),
    "depthwise": (lambda x, w: convolve(x, w, 2, 32), (F32, (4, 28, 28, 32)), (F32, (32, 3, 3, 1))),
    "depthwise_1d": (lambda x, w: convolve(x, w, 1, 64), (F32, (8, 256, 64)), (F32, (64, 7, 1))),
    "conv_1x1": (lambda x, w: convolve(x, w, 2), (F32, (4, 20, 20, 48)), (F32, (96, 1, 1, 48))),
    "batched_20": (jnp.matmul, (F32, (200, 20, 20)), (F32, (200, 20, 20))),
    "batched_3": (jnp.matmul, (F32, (5000, 3, 3)), (F32, (5000, 3, 3))),
    "batched_4_f64": (jnp.matmul, (F64, (1000, 4, 4)), (F64, (1000, 4, 4))),
    "batched_matvec": (jnp.matmul, (F32, (500, 20, 20)), (F32, (500, 20, 1))),
    "matmul_33": (jnp.matmul, (F32, (33, 65)), (F32, (65, 97))),
    "matmul_tn": (lambda a, b: a.T @ b, (F32, (200, 150)), (F32, (200, 170))),
    "matmul_nt": (lambda a, b: a @ b.T, (F32, (64, 300)), (F32, (128, 300))),
    "linear_gelu": (lambda x, w, b: jax.nn.gelu(x @ w.T + b, approximate=True),
                    (F32, (128, 256)), (F32, (512, 256)), (F32, (512,))),
    "norm_32": (lambda x, g, b: norm(x) * g + b, (F32, (5000, 32)), (F32, (32,)), (F32, (32,))),
    "norm_33_f64": (norm, (F64, (1000, 33))),
    "norm_slope": (jax.grad(lambda x, y: jnp.sum(norm(x) * y)), (F32, (1000, 64)), (F32, (1000, 64))),
    "sum_33": (lambda x: jnp.sum(x, 1), (F32, (10000, 33))),
    "length_36": (lambda x: jnp.sqrt(jnp.sum(x * x, 1)), (F32, (9000, 36))),
    "softmax_3": (jax.nn.softmax, (F32, (30000, 3))),
    "bce": (bce, (F32, (5000, 10)), (F32, (5000, 10))),
    "huber_slope": (jax.grad(huber), (F32, (100000,)), (F32, (100000,))),
    "cosine": (lambda x, y: jnp.sum(normalize(x, 1) * normalize(y, 1), 1), (F32, (1000, 128)), (F32, (1000, 128))),
    "adam_step": (adam, *[(F32, (300000,))] * 4),
    "momentum_bf16": (momentum, *[(BF16, (300000,))] * 3),
    "max_pool_1": (lambda x: pool(x, 2, -jnp.inf, jax.lax.max), (F32, (16, 28, 28, 1))),
    "avg_pool_3": (lambda x: pool(x, 3, 0.0, jax.lax.add) / 9, (F32, (8, 30, 30, 3))),
    "scatter_maximum": (lambda x, i: jnp.zeros(1000, F32).at[i].max(x), (F32, (50000,)), (I32, (50000,), 1000)),
    "scalar_loop": (lambda x: jax.lax.scan(lambda h, t: (F32(0.9) * h + t,) * 2, F32(0.5), x)[1], (F32, (5000,))),
    "eigh_64": (lambda x: jnp.linalg.eigh(x + x.T), (F32, (64, 64))),
    "int_bits": (lambda x: (x * 3 + 7) % 1000, (I32, (200000,), 100000)),
    "tiny_add": (jnp.add, (F32, (10,)), (F32, (10,))),
}


def made(name):
    """The function, and its inputs as `netc bench` makes them up: numbers around 0."""
    f, *args = MODELS[name]
    return jax.jit(f), [jnp.asarray(rng.integers(0, *below, shape) if below else rng.uniform(-1, 1, shape), t)
                        for t, shape, *below in args]


def microseconds(name):
    f, x = made(name)
    jax.block_until_ready(f(*x))
    times, least = [], 0.01
    for _ in range(15):
        n, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < least:
            jax.block_until_ready(f(*x))
            n += 1
        times.append((time.perf_counter() - begin) / n)
    return statistics.median(times) * 1e6


# What of the outputs is compared, where not all of it.
SAME = {"dropout_f32": np.shape, "normals": np.shape, "uniforms": np.shape,  # random numbers of their own
        "rounds": lambda y: y[:8], "lstm_backward": np.shape,  # little differences grow
        "eigh_16": np.abs, "eigh_64": np.abs}  # eigenvectors have either sign


def one_core(names):
    from one_core import Model, agree, by_turns
    model = Model("bench/cpu_ops.net")
    for name in names:
        f, x = made(name)
        ours, theirs, same = model.call(name, x), lambda: jax.block_until_ready(f(*x)), SAME.get(name, np.asarray)
        agree(name, *([np.asarray(same(y)) for y in jax.tree.leaves(of())] for of in (ours, theirs)))
        print(name, *(f"{t:.2f}" for t in by_turns(ours, theirs)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--core"]:
        one_core(sys.argv[2:] or MODELS)
    else:
        for name in sys.argv[1:] or MODELS:
            print(name, f"{microseconds(name):.1f}", flush=True)
