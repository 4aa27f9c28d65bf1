"""Ops: elementwise, integers, reductions, views, products."""
import jax
import jax.numpy as jnp
import numpy as np

from goldens import SHAPES, TYPES, File, R


def elementwise():
    f = File("elementwise")
    unary = [
        ("neg", "-x", lambda x: -x), ("abs", "abs(x)", jnp.abs), ("sign", "sign(x)", jnp.sign),
        ("exp", "exp(x)", jnp.exp), ("expm1", "expm1(x)", jnp.expm1), ("sin", "sin(x)", jnp.sin),
        ("cos", "cos(x)", jnp.cos), ("tanh", "tanh(x)", jnp.tanh), ("erf", "erf(x)", jax.scipy.special.erf),
        ("sigmoid", "sigmoid(x)", jax.nn.sigmoid), ("floor", "floor(x)", jnp.floor), ("ceil", "ceil(x)", jnp.ceil),
        ("round", "round(x)", jnp.round), ("square", "square(x)", jnp.square), ("cube", "x ** 3", lambda x: x**3),
        ("relu", "relu(x)", jax.nn.relu), ("leaky", "leaky_relu(x)", jax.nn.leaky_relu),
        ("leaky3", "leaky_relu(x, slope = 0.3)", lambda x: jax.nn.leaky_relu(x, 0.3)),
        ("gelu", "gelu(x)", lambda x: jax.nn.gelu(x, approximate=False)),
        ("gelu_t", "gelu_tanh(x)", lambda x: jax.nn.gelu(x, approximate=True)), ("silu", "silu(x)", jax.nn.silu),
        ("softplus", "softplus(x)", jax.nn.softplus), ("elu", "elu(x)", jax.nn.elu),
        ("elu2", "elu(x, alpha = 2.5)", lambda x: jax.nn.elu(x, 2.5)), ("clamped", "clamp(x, -1, 2)", lambda x: jnp.clip(x, -1, 2)),
        ("stopped", "x * stop_gradient(x)", lambda x: x * jax.lax.stop_gradient(x)), ("same", "identity(x)", lambda x: x),
        ("finite", "isfinite(x / 0)", lambda x: jnp.isfinite(x / 0.0)),
    ]
    positive = [
        ("sqrt", "sqrt(x)", jnp.sqrt), ("rsqrt", "rsqrt(x)", jax.lax.rsqrt), ("log", "log(x)", jnp.log),
        ("log1p", "log1p(x)", jnp.log1p), ("recip", "reciprocal(x)", lambda x: 1 / x), ("root", "x ** 0.3", lambda x: x**0.3),
        ("tenth", "x / 10", lambda x: x / 10), ("mod1", "x % 0.7", lambda x: jnp.mod(x, 0.7)),
    ]
    smooth = {"exp", "expm1", "sin", "cos", "tanh", "erf", "sigmoid", "square", "cube", "gelu", "gelu_t", "silu", "softplus", "sqrt", "rsqrt", "log", "log1p", "recip", "root"}
    for i, s in enumerate(SHAPES):
        for part, ops, low in (("any", unary, -3.0), ("positive", positive, 0.05)):
            for k, at in enumerate(range(0, len(ops), 7)):
                some = ops[at:at + 7]
                flat = [o for o in some if o[0] not in smooth]
                curved = [o for o in some if o[0] in smooth]
                for kind, group in (("", flat), ("s", curved)):
                    outs = [(n, e, g) for n, e, g in group]
                    soft = [o for o in outs if o[0] != "finite"]
                    if soft:
                        f.case(f"{part}{kind}{k}_{i}", {"x": R(s, low)}, soft, ["x"], ["x"] if kind else [])
                    if len(soft) < len(outs):
                        f.case(f"{part}test{k}_{i}", {"x": R(s, low)}, [o for o in outs if o[0] == "finite"])
    # What is large, tiny, infinite or not a number.
    wide = [0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 88.0, -88.0, 120.0, -120.0, 20.0, -20.0, 1e5, 3e8]
    skip = {"finite", "cube", "stopped", "square", "sin", "cos"}  # powers overflow one type, not the other
    for at in range(0, len(unary), 7):
        outs = [(n, e, g) for n, e, g in unary[at:at + 7] if n not in skip and n not in ("exp", "expm1", "elu", "elu2")]
        f.case(f"wide{at}", {"x": R([22], values=wide)}, outs)
    big = [0.0, 1e-6, 3.1415927, 100.25, 1000.75, 12345.678, -98765.43, 1e6, -3e7]
    f.case("angles", {"x": R([9], values=big)}, [("s", "sin(x)", jnp.sin), ("c", "cos(x)", jnp.cos)])
    binary = [
        ("add", "x + y", lambda x, y: x + y), ("sub", "x - y", lambda x, y: x - y), ("mul", "x * y", lambda x, y: x * y),
        ("div", "x / y", lambda x, y: x / y), ("fdiv", "x // y", lambda x, y: jnp.floor_divide(x, y)),
        ("mod", "x % y", lambda x, y: jnp.mod(x, y)), ("mini", "minimum(x, y)", jnp.minimum), ("maxi", "maximum(x, y)", jnp.maximum),
        ("pow", "abs(x) ** y", lambda x, y: jnp.abs(x) ** y), ("pick", "where(x > y, x * 2, y)", lambda x, y: jnp.where(x > y, x * 2, y)),
    ]
    pairs = [([1], [1]), ([7], [7]), ([3, 5], [5]), ([5, 1, 7], [3, 1]), ([2, 33], [2, 1]), ([1], [4, 17]), ([65, 3], [65, 3])]
    for i, (a, b) in enumerate(pairs):
        x, y = {"x": R(a)}, {"y": R(b, 0.4, 3.0)}
        if i % 2:
            y = {"y": R(b, -3.0, -0.4)}
        f.case(f"binary_{i}", {**x, **y}, binary[:6], ["x", "y"])
        f.case(f"chosen_{i}", {**x, **y}, binary[6:], ["x", "y"])
        f.case(f"compare_{i}", {"x": R(a, values=[1, 2, 3, 2]), "y": R(b, values=[2, 1, 2])},
               [(n, e, g) for n, e, g in [
                   ("eq", "x == y", lambda x, y: x == y), ("ne", "x != y", lambda x, y: x != y), ("lt", "x < y", lambda x, y: x < y),
                   ("le", "x <= y", lambda x, y: x <= y), ("gt", "x > y", lambda x, y: x > y), ("ge", "x >= y", lambda x, y: x >= y),
                   ("both", "x < y and x + 1 >= y", lambda x, y: (x < y) & (x + 1 >= y)),
                   ("either", "x < y or not (x <= y)", lambda x, y: (x < y) | ~(x <= y))]])
    # Ties share the gradient of minimum and maximum.
    f.case("ties", {"x": R([6], values=[1, 2, 3, 1, 2, 3]), "y": R([6], values=[1, 3, 2, 1, 2, 4])},
           [("mini", "minimum(x, y)", jnp.minimum), ("maxi", "maximum(x, y)", jnp.maximum)], ["x", "y"])
    f.case("three", {"c": R([3, 1], dtype="bool"), "x": R([3, 5]), "y": R([5])}, [("w", "where(c, x, y)", jnp.where)], ["x", "y"])
    # What std/core and std/nn make of the operations above.
    made = [
        ("tan", "tan(x)", jnp.tan), ("sinh", "sinh(x)", jnp.sinh), ("cosh", "cosh(x)", jnp.cosh), ("atan", "atan(x)", jnp.arctan),
        ("asin", "asin(x / 3.01)", lambda x: jnp.arcsin(x / 3.01)), ("acos", "acos(x / 3.01)", lambda x: jnp.arccos(x / 3.01)),
        ("selu", "selu(x)", jax.nn.selu), ("mish", "mish(x)", jax.nn.mish), ("log_sigmoid", "log_sigmoid(x)", jax.nn.log_sigmoid),
        ("hard_sigmoid", "hard_sigmoid(x)", lambda x: jnp.clip(x / 6 + 0.5, 0, 1)), ("hard_swish", "hard_swish(x)", lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1)),
        ("normal_", "normalize(x)", lambda x: x / jnp.sqrt(jnp.maximum(jnp.sum(x * x, -1, keepdims=True), 1e-24))),
    ]
    for i, s in enumerate(SHAPES):
        f.case(f"made_{i}", {"x": R(s, -1.4, 1.4)}, made[:6], ["x"], ["x"])
        f.case(f"shaped_{i}", {"x": R(s, -3.0)}, made[6:], ["x"])
    f.case("arcs", {"x": R([14], values=[0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 0.0, 0.0, 3.0, -3.0, 1e-20, 1e20, 2.5]),
                    "y": R([14], values=[0.0, 1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 1.0, -1.0, 1e-3, -1e-3, 1e-20, 1e-20, -2.0])},
           [("a", "atan2(y, x)", lambda x, y: jnp.arctan2(y, x))])
    f.case("arc_slopes", {"x": R([12], values=[1.0, -1.0, 1.0, -1.0, 1.0, -2.0, 0.5, 0.0, 3.0, -3.0, 1e-3, 2.5]),
                          "y": R([12], values=[1.0, 1.0, -1.0, -1.0, 0.0, 0.5, -2.0, 1.0, 1e-3, -1e-3, 1e-3, -2.0])},
           [("a", "atan2(y, x)", lambda x, y: jnp.arctan2(y, x))], ["x", "y"], ["x", "y"])
    f.case("alike", {"x": R([3, 4, 7]), "y": R([4, 7])}, [
        ("c", "cosine_similarity(x, y)", lambda x, y: jnp.sum(x * y, -1) / jnp.sqrt(jnp.sum(x * x, -1) * jnp.sum(y * y, -1))),
        ("g", "glu(x * y, 1)", lambda x, y: jax.nn.glu(x * y, 1))], ["x", "y"])
    f.write()


def integers():
    f = File("integers")
    ranges = {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**62), 2**62), "u32": (0, 2**32 - 1), "u8": (0, 255)}
    for t, (low, high) in ranges.items():
        n = TYPES[t]
        edges = [low, high, 0, 1, 2, 7, high - 1, low + 1, 100, 13, 200, 5]
        others = [3, 1, 7, 2, 5, 200, 1, 2, 3, 9, 250, 31] if low == 0 else [3, -1, 7, 2, -5, 100, 1, -2, -3, 9, 25, 31]
        wrap = lambda g, n=n: lambda x, y: g(np.asarray(x, n), np.asarray(y, n))
        old = np.seterr(all="ignore")
        safe = [e if e != low or low == 0 else low + 2 for e in edges]
        f.case(f"arith_{t}", {"x": R([12], dtype=t, values=safe), "y": R([12], dtype=t, values=others)}, [
            ("add", "x + y", wrap(np.add)), ("sub", "x - y", wrap(np.subtract)), ("mul", "x * y", wrap(np.multiply)),
            ("fdiv", "x // y", wrap(np.floor_divide)), ("mod", "x % y", wrap(np.mod)),
            ("mini", "minimum(x, y)", wrap(np.minimum)), ("maxi", "maximum(x, y)", wrap(np.maximum)),
            ("lt", "x < y", wrap(np.less)), ("ge", "x >= y", wrap(np.greater_equal)), ("eq", "x == y", wrap(np.equal)),
        ])
        f.case(f"bits_{t}", {"x": R([12], dtype=t, values=edges), "y": R([12], dtype=t, values=others)}, [
            ("and_", "bit_and(x, y)", wrap(np.bitwise_and)), ("or_", "bit_or(x, y)", wrap(np.bitwise_or)),
            ("xor_", "bit_xor(x, y)", wrap(np.bitwise_xor)),
            ("left", "shl(x, bit_and(y, 7))", wrap(lambda x, y: x << (y & 7))), ("right", "shr(x, bit_and(y, 7))", wrap(lambda x, y: x >> (y & 7))),
        ])
        small = {"x": R([5, 7, 3], -50 if low else 0, 100, dtype=t)}
        one = lambda g: lambda x: g(np.asarray(x))
        f.case(f"reduce_{t}", small, [
            ("all_", "sum(x)", one(lambda x: x.sum(dtype=np.int64))), ("rows", "sum(x, -1)", one(lambda x: x.sum(-1, dtype=np.int64))),
            ("two", "sum(x, [0, 2])", one(lambda x: x.sum((0, 2), dtype=np.int64))),
            ("top", "max(x, 1)", one(lambda x: x.max(1))), ("low", "min(x, 0)", one(lambda x: x.min(0))),
            ("place", "argmax(x, 1)", one(lambda x: x.argmax(1).astype(np.int32))), ("least", "argmin(x, 0)", one(lambda x: x.argmin(0).astype(np.int32))),
            ("avg", "cast(mean(x, 1), f32)", one(lambda x: x.mean(1, dtype=np.float64))),
        ])
        f.case(f"order_{t}", {"x": R([3, 37], -5 if low else 0, 9, dtype=t)}, [
            ("sorted", "sort(x)", one(lambda x: np.sort(x, -1))), ("down", "sort(x, 0, descending = true)", one(lambda x: -np.sort(-x.astype(np.int64), 0))),
            ("places", "argsort(x)", one(lambda x: np.argsort(x, -1, kind="stable").astype(np.int32))),
            ("run", "cumsum(x, -1)", one(lambda x: np.cumsum(x, -1, dtype=x.dtype))),
            ("before", "cumsum(x, 0, exclusive = true)", one(lambda x: (np.cumsum(x, 0, dtype=x.dtype) - x).astype(x.dtype))),
            ("back", "cumsum(x, -1, reverse = true)", one(lambda x: np.flip(np.cumsum(np.flip(x, -1), -1, dtype=x.dtype), -1))),
        ])
        for to, kind in TYPES.items():
            if to in ("f64", "f32", "bool"):
                continue
            f.case(f"from_{t}_to_{to}", {"x": R([12], dtype=t, values=edges)},
                   [("y", f"cast(x, {to})", (lambda kind: lambda x: np.asarray(x).astype(kind))(kind))])
        np.seterr(**old)
    def saturate(kind):
        def g(x):
            i = np.iinfo(kind)
            v = np.trunc(np.nan_to_num(np.asarray(x, np.float64), nan=0, posinf=np.inf, neginf=-np.inf))
            out = np.clip(v, float(i.min), float(i.max))
            r = np.zeros(v.shape, kind)
            r[v >= float(i.max)] = i.max
            r[v <= float(i.min)] = i.min
            inside = (v < float(i.max)) & (v > float(i.min))
            r[inside] = out[inside].astype(kind)
            return r
        return g
    floats = [0.0, -0.9, 1.9, 255.0, 256.0, -1.0, 3e9, -3e9, 1e20, -1e20, 127.5, np.inf, -np.inf, 65504.0, 2147483647.0]
    for to in ("i32", "i64", "u32", "u8"):
        f.case(f"from_real_to_{to}", {"x": R([15], values=floats)}, [("y", f"cast(x, {to})", saturate(TYPES[to]))])
        f.case(f"from_{to}_to_real", {"x": R([6], dtype=to, values=[0, 1, 2, 100, 77, 255])},
               [("y", "cast(x, real)", lambda x: np.asarray(x, np.float64)), ("b", "x != 0", lambda x: np.asarray(x) != 0)])
    f.case("high", {"x": R([5], dtype="u32", values=[0, 1, 2**32 - 1, 2**31, 123456789]), "y": R([5], dtype="u32", values=[7, 2**32 - 1, 2**32 - 1, 6, 3999999999])},
           [("hi", "mulhi(x, y)", lambda x, y: ((np.asarray(x, np.uint64) * np.asarray(y, np.uint64)) >> 32).astype(np.uint32))])
    f.write()


def reductions():
    f = File("reductions")
    cases = [([7], None), ([1], None), ([3, 5], -1), ([3, 5], 0), ([2, 33, 3], 1), ([5, 1, 65], 2), ([4, 3, 5], [0, 2]), ([129, 3], 0), ([3, 129], 1), ([2, 3, 4, 5, 3], [2, 4])]
    for i, (s, axis) in enumerate(cases):
        a = "" if axis is None else f", {axis}"
        ax = None if axis is None else tuple(axis) if isinstance(axis, list) else axis
        take = lambda g, **k: (lambda x: g(x, axis=ax, **k))
        f.case(f"sums_{i}", {"x": R(s)}, [
            ("total", f"sum(x{a})", take(jnp.sum)), ("avg", f"mean(x{a})", take(jnp.mean)), ("var", f"variance(x{a})", take(jnp.var)),
            ("dev", f"sqdev(x{a})", lambda x: jnp.var(x, axis=ax) * (x.size / jnp.var(x, axis=ax).size)),
            ("kept", f"sum(x * x{a if a else ', none'}, keep = true)", lambda x: jnp.sum(x * x, axis=ax, keepdims=True)),
        ], ["x"])
        f.case(f"tops_{i}", {"x": R(s, apart=True)}, [
            ("top", f"max(x{a})", take(jnp.max)), ("low", f"min(x{a})", take(jnp.min)),
            ("spread", f"max(x{a}) - min(x{a})", lambda x: jnp.max(x, axis=ax) - jnp.min(x, axis=ax)),
        ], ["x"])
        f.case(f"prod_{i}", {"x": R(s, 0.8, 1.25)}, [("product", f"prod(x{a})", take(jnp.prod))], ["x"])
        if not isinstance(axis, list):
            ax1 = -1 if axis is None else axis
            f.case(f"place_{i}", {"x": R(s, values=[1, 5, 2, 5, 3, 4.5, 0])},
                   [("first", f"argmax(x, {ax1})", lambda x: jnp.argmax(x, ax1).astype(jnp.int32)), ("least", f"argmin(x, {ax1})", lambda x: jnp.argmin(x, ax1).astype(jnp.int32))])
            f.case(f"soft_{i}", {"x": R(s, -5, 5)}, [
                ("p", f"softmax(x, {ax1})", lambda x: jax.nn.softmax(x, ax1)), ("lp", f"log_softmax(x, {ax1})", lambda x: jax.nn.log_softmax(x, ax1)),
                ("lse", f"logsumexp(x, {ax1})", lambda x: jax.scipy.special.logsumexp(x, ax1)),
                ("lsek", f"logsumexp(x, {ax1}, keep = true)", lambda x: jax.scipy.special.logsumexp(x, ax1, keepdims=True)),
            ], ["x"], ["x"])
            f.case(f"scan_{i}", {"x": R(s, apart=True)}, [
                ("run", f"cumsum(x, {ax1})", lambda x: jnp.cumsum(x, ax1)), ("before", f"cumsum(x, {ax1}, exclusive = true)", lambda x: jnp.cumsum(x, ax1) - x),
                ("back", f"cumsum(x, {ax1}, reverse = true)", lambda x: jnp.flip(jnp.cumsum(jnp.flip(x, ax1), ax1), ax1)),
                ("sorted", f"sort(x, {ax1})", lambda x: jnp.sort(x, ax1)), ("down", f"sort(x, {ax1}, descending = true)", lambda x: jnp.flip(jnp.sort(x, ax1), ax1)),
            ], ["x"])
            f.case(f"places_{i}", {"x": R(s, values=[3, 1, 2, 1, 3, 0, 2, 2])}, [
                ("up", f"argsort(x, {ax1})", lambda x: jnp.argsort(x, ax1, stable=True).astype(jnp.int32)),
                ("down", f"argsort(x, {ax1}, descending = true)", lambda x: jnp.argsort(x, ax1, stable=True, descending=True).astype(jnp.int32))])
    f.case("truth", {"x": R([3, 5], dtype="bool"), "z": R([4], dtype="bool", values=[0])},
           [("a", "any(x)", lambda x, z: jnp.any(x)), ("b", "all(x)", lambda x, z: jnp.all(x)), ("c", "any(z)", lambda x, z: jnp.any(z)),
            ("d", "mean(x)", lambda x, z: jnp.mean(x * 1.0))])
    f.case("extremes", {"x": R([4, 5], values=[1, np.nan, 3, 4, 5, -np.inf, 2, 3, 4, 5, np.inf, 1, 2, 3, 4, 7, 8, 9, 10, 11])},
           [("top", "max(x, -1)", lambda x: jnp.max(x, -1)), ("low", "min(x, -1)", lambda x: jnp.min(x, -1)), ("total", "sum(x, -1)", lambda x: jnp.sum(x, -1)),
            ("p", "softmax(x[3:], -1)", lambda x: jax.nn.softmax(x[3:], -1))])
    for i, (n, axis) in enumerate([(1, -1), (2, 0), (7, -1), (33, 1), (65, 0)]):
        s = [n, 3] if axis == 0 else [3, n]
        back = lambda g, axis=axis: (lambda x: jnp.flip(g(jnp.flip(x, axis), axis), axis))
        before = lambda x, axis=axis: jnp.cumprod(jnp.concatenate([jnp.ones_like(jnp.take(x, jnp.array([0]), axis)), jnp.take(x, jnp.arange(x.shape[axis] - 1), axis)], axis), axis)
        for kind, values in (("runs", None), ("zeros", [1.5, -0.5, 0.0, 2.0, -1.0, 0.75, 0.0, 1.25])):
            f.case(f"{kind}_{i}", {"x": R(s, 0.7, 1.3, values=values)}, [
                ("p", f"cumprod(x, {axis})", lambda x, axis=axis: jnp.cumprod(x, axis)),
                ("q", f"cumprod(x, {axis}, reverse = true)", back(jnp.cumprod)),
                ("r", f"cumprod(x, {axis}, exclusive = true)", before),
            ], ["x"], ["x"])
        f.case(f"tops_so_far_{i}", {"x": R(s, apart=True)}, [
            ("p", f"cummax(x, {axis})", lambda x, axis=axis: jax.lax.cummax(x, axis % 2)), ("q", f"cummin(x, {axis}, reverse = true)", lambda x, axis=axis: jax.lax.cummin(x, axis % 2, reverse=True)),
        ], ["x"])
        def linear(a, x, axis=axis):
            f2 = lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1])
            return jax.lax.associative_scan(f2, (a, x), axis=axis % 2)[1]
        f.case(f"recurrence_{i}", {"a": R(s, -1, 1), "x": R(s)}, [("h", f"associative_scan(joined, [a, x], {axis})[1]", linear)], ["a", "x"], ["a"])
    f.text[0] += """
fn joined(l, r) { return [l[0] * r[0], r[0] * l[1] + r[1]] }   # of y = a y + x
"""
    # Ties share the gradient of max and min.
    f.case("tied", {"x": R([2, 6], values=[1, 3, 3, 0, 3, 0])}, [("top", "max(x, -1)", lambda x: jnp.max(x, -1)), ("low", "min(x)", jnp.min)], ["x"])
    f.write()


def views():
    f = File("views")
    f.case("shapes", {"x": R([3, 5, 7])}, [
        ("a", "reshape(x, [15, -1])", lambda x: x.reshape(15, -1)), ("b", "transpose(x)", lambda x: jnp.swapaxes(x, -1, -2)),
        ("c", "transpose(x, [2, 0, 1])", lambda x: jnp.transpose(x, (2, 0, 1))), ("d", "flatten(x)", lambda x: x.reshape(3, -1)),
        ("e", "expand(x, 1)", lambda x: x[:, None]), ("f", "reshape(transpose(x, [1, 2, 0]), [7, 15])", lambda x: jnp.transpose(x, (1, 2, 0)).reshape(7, 15)),
        ("g", "reverse(x, 1)", lambda x: jnp.flip(x, 1)), ("h", "expand(x, -1)", lambda x: x[..., None]),
    ], ["x"])
    f.case("slices", {"x": R([9, 5, 11])}, [
        ("a", "x[1]", lambda x: x[1]), ("b", "x[..., 1:]", lambda x: x[..., 1:]), ("c", "x[::2, :, -1]", lambda x: x[::2, :, -1]),
        ("d", "x[2:-1, 1:4, ::3]", lambda x: x[2:-1, 1:4, ::3]), ("e", "x[:, none, 0]", lambda x: x[:, None, 0]), ("f", "x[-3:, -1]", lambda x: x[-3:, -1]),
        ("g", "reverse(x[1::3], 0)", lambda x: x[1::3][::-1]), ("h", "x[8, 4, 10]", lambda x: x[8, 4, 10]),
    ], ["x"])
    f.case("downwards", {"x": R([9, 5, 11])}, [
        ("a", "x[::-1]", lambda x: x[::-1]), ("b", "x[7:2:-2, 1:, ::-3]", lambda x: x[7:2:-2, 1:, ::-3]), ("c", "x[-2::-3, ::-1, -1]", lambda x: x[-2::-3, ::-1, -1]),
        ("d", "x[100:-20:-4]", lambda x: x[100:-20:-4]),
    ], ["x"])
    f.case("joins", {"x": R([3, 5]), "y": R([2, 5]), "z": R([3, 1])}, [
        ("a", "concat([x, y])", lambda x, y, z: jnp.concatenate([x, y])), ("b", "concat([x, z, x], axis = 1)", lambda x, y, z: jnp.concatenate([x, z, x], 1)),
        ("c", "stack([x, x * 2])", lambda x, y, z: jnp.stack([x, x * 2])), ("d", "stack([x, -x], axis = 2)", lambda x, y, z: jnp.stack([x, -x], 2)),
        ("e", "pad(x, [1, 0], [2, 3])", lambda x, y, z: jnp.pad(x, ((1, 2), (0, 3)))), ("f", "pad(y, [0, 2], [1, 0], value = 7)", lambda x, y, z: jnp.pad(y, ((0, 1), (2, 0)), constant_values=7)),
        ("g", "x + broadcast(z, [3, 5])", lambda x, y, z: x + jnp.broadcast_to(z, (3, 5))), ("h", "concat([x[:, 1:], reverse(x, 1)], axis = -1)", lambda x, y, z: jnp.concatenate([x[:, 1:], x[:, ::-1]], -1)),
        ("shift", "x - pad(x[:, :-1], [0, 1], [0, 0])", lambda x, y, z: x - jnp.pad(x[:, :-1], ((0, 0), (1, 0)))),
    ], ["x", "y", "z"])
    f.case("parts", {"x": R([4, 6])}, [
        ("a", "split(x, 3)[1]", lambda x: jnp.split(x, 3, -1)[1]), ("b", "split(x, [1, 5])[1] * split(x, [1, 5])[0]", lambda x: x[:, 1:] * x[:, :1]),
        ("c", "split(x, 2, axis = 0)[0] + split(x, 2, axis = 0)[1]", lambda x: x[:2] + x[2:]),
    ], ["x"])
    for i, n in enumerate([1, 2, 5, 33]):
        t = {"t": R([2, 4], 0, n, dtype="i32", bound=(0, n))}
        f.case(f"picks_{i}", {"x": R([n, 3]), **t}, [
            ("a", "x[t]", lambda x, t: x[t]), ("b", "transpose(x)[:, t]", lambda x, t: x.T[:, t]), ("c", "gather(transpose(x), t, axis = 1)", lambda x, t: jnp.take(x.T, t, 1)),
            ("d", "x[t] * x[reverse(t, 0)]", lambda x, t: x[t] * x[t[::-1]]),
        ], ["x"], ["x"])
        f.case(f"hot_{i}", {"l": R([7], 0, n, dtype="i32", bound=(0, n))}, [("y", f"one_hot(l, {n}, real)", lambda l, n=n: jax.nn.one_hot(l, n, dtype=jnp.float64))])
        f.case(f"adds_{i}", {"x": R([n, 3]), "u": R([6, 3]), "l": R([6], 0, n, dtype="i32", bound=(0, n))}, [
            ("a", "scatter_add(x, l, u)", lambda x, u, l: x.at[l].add(u)),
            ("b", "scatter_add(transpose(x), l, transpose(u), axis = 1)", lambda x, u, l: x.T.at[:, l].add(u.T)),
            ("c", "scatter_add(x, l, u * 0 + 1)", lambda x, u, l: x.at[l].add(1.0)),
        ], ["x", "u"])
        f.case(f"ones_{i}", {"x": R([n]), "l": R([9], 0, n, dtype="i32", bound=(0, n), values=[n - 1])}, [
            ("a", "scatter_add(x, l, ones([9], real))", lambda x, l: x.at[l].add(1.0)), ("b", "sin(x[l])", lambda x, l: jnp.sin(x[l]))], ["x"])
    for i, (a, b) in enumerate([([4], [4]), ([3, 1], [2]), ([1], [33]), ([2, 2], [1, 2])]):
        n = int(np.prod(np.broadcast_shapes(a, b)))
        of = lambda dtype: {"i": R(a, 0, 5, dtype=dtype, bound=(0, 5)), "j": R(b, 0, 7, dtype=dtype)}
        f.case(f"several_{i}", {"x": R([5, 7, 3]), **of("i32" if i % 2 else "i64")}, [
            ("a", "x[i, j]", lambda x, i, j: x[i, j]), ("b", "transpose(x, [2, 0, 1])[:, i, j]", lambda x, i, j: jnp.transpose(x, (2, 0, 1))[:, i, j]),
            ("c", "transpose(x, [0, 2, 1])[i, :, j]", lambda x, i, j: jnp.transpose(x, (0, 2, 1))[i, :, j]),
            ("d", "transpose(x, [0, 2, 1])[i, ::-2, j] * x[i, j, 1:]", lambda x, i, j: jnp.transpose(x, (0, 2, 1))[i, ::-2, j] * x[i, j, 1:]),
            ("e", "gather(x, [i, j])", lambda x, i, j: x[i, j]), ("f", "x[i, none, j]", lambda x, i, j: x[i, None, j]),
        ], ["x"], ["x"])
        f.case(f"several_added_{i}", {"x": R([3, 5, 7]), "u": R([3] + list(np.broadcast_shapes(a, b))), **of("i32")}, [
            ("a", "scatter_add(x, [i, j], u, axis = 1)", lambda x, u, i, j: x.at[:, i, j].add(u)),
        ], ["x", "u"])
    f.case("places", {"x": R([5, 3]), "u": R([3, 3]), "l": R([3], dtype="i32", values=[4, 0, 2], bound=(0, 5))},
           [("a", "scatter(x, l, u)", lambda x, u, l: x.at[l].set(u))], ["x", "u"])
    for i, at in enumerate([(0, 0), (2, 1), (4, 9), (-3, 2)]):
        start = {"r": R([], dtype="i32", values=[at[0]]), "c": R([], dtype="i32", values=[at[1]])}
        def clamped(x, r, c):
            return jax.lax.dynamic_slice(x, (jnp.clip(r, 0, 4), jnp.clip(c, 0, 3)), (3, 4))
        f.case(f"window_{i}", {"x": R([7, 7]), "u": R([3, 4]), **start}, [
            ("a", "dynamic_slice(x, [r, c], [3, 4])", lambda x, u, r, c: clamped(x, r, c)),
            ("b", "dynamic_update(x, u, [r, c])", lambda x, u, r, c: jax.lax.dynamic_update_slice(x, u, (jnp.clip(r, 0, 4), jnp.clip(c, 0, 3)))),
        ], ["x", "u"])
    f.case("loops", {"xs": R([9, 3]), "k": R([], 0.2, 0.9)}, [
        ("last", "leaky(xs, k)[0]", lambda xs, k: leaky(xs, k)[0]), ("all_", "leaky(xs, k)[1]", lambda xs, k: leaky(xs, k)[1]),
    ], ["xs", "k"], ["k"])
    f.text[0] += """
fn leaky(xs, keep) {
    s = zeros(shape(xs)[1:], real)
    loop t in 0..dim(xs, 0) carry s over x = xs {
        s = keep * s + sin(x) * cast(t + 1, real)
        emit history = s
    }
    return s, history
}
"""
    f.write()


def leaky(xs, k):
    def body(s, tx):
        t, x = tx
        s = k * s + jnp.sin(x) * (t + 1.0)
        return s, s
    n = xs.shape[0]
    return jax.lax.scan(body, jnp.zeros(xs.shape[1:]), (jnp.arange(n), xs))


def products():
    f = File("products")
    for i, (a, b) in enumerate([([3, 5], [5, 7]), ([1, 1], [1, 1]), ([33, 65], [65, 1]), ([1, 17], [17, 9]), ([2, 1, 3, 5], [4, 5, 2]), ([5, 31], [2, 31, 3]), ([129, 2], [2, 33]), ([16, 64], [64, 16])]):
        f.case(f"matmul_{i}", {"x": R(a), "y": R(b)}, [("z", "matmul(x, y)", lambda x, y: jnp.matmul(x, y))], ["x", "y"])
        f.case(f"fused_{i}", {"x": R(a, -1, 1), "y": R(b, -1, 1)}, [("z", "tanh(matmul(x * 0.5, y) + 0.25)", lambda x, y: jnp.tanh(jnp.matmul(x * 0.5, y) + 0.25))], ["x", "y"], ["x"])
    f.case("turned", {"x": R([5, 3]), "y": R([7, 5])}, [
        ("a", "matmul(transpose(x), transpose(y))", lambda x, y: x.T @ y.T), ("b", "matmul(y, x)", lambda x, y: y @ x), ("c", "transpose(matmul(y, x)) + 1", lambda x, y: (y @ x).T + 1)], ["x", "y"])
    f.case("attention", {"q": R([2, 5, 4]), "k": R([2, 7, 4]), "v": R([2, 7, 3])}, [
        ("o", "matmul(softmax(matmul(q, transpose(k)) / 2), v)", lambda q, k, v: jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / 2) @ v)], ["q", "k", "v"])
    f.write()
