"""Makes the golden files of this folder: models as netc would be given them, and what JAX computes for them.

    pip install jax && python tests/golden/make.py          (JAX 0.10 made what is in the repository)

Every case is a model of a .net file; its inputs, results and gradients, computed by JAX in double
precision, are tensors of the .safetensors file beside it, named CASE/in/NAME, CASE/out/NAME,
CASE/cell/NAME (a parameter's value) and CASE/unit/NAME: how far each element moves, in multiples of eps,
when every input is changed by a relative eps. tests/unit/lib_golden.c compares.
"""
import json
import math
import os
import struct
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f64": np.float64, "f32": np.float32, "i32": np.int32, "i64": np.int64, "u32": np.uint32, "u8": np.uint8, "bool": np.bool_}
SAFE = {"float64": "F64", "float32": "F32", "int32": "I32", "int64": "I64", "uint32": "U32", "uint8": "U8", "bool": "BOOL"}
HEAD = """# Made by tests/golden/make.py.
use nn
const real = f64

# A scalar in which every element counts differently.
fn probe(y) { return sum(flatten(y, 0) * (cast(iota(numel(y)) * 5 % 11, real) - 4.5)) }
"""


def probe(y):
    n = y.size
    return jnp.sum(y.reshape(-1) * ((jnp.arange(n) * 5 % 11) - 4.5))


def is_float(a):
    return np.dtype(a.dtype).kind == "f"


class Input:
    """An input or parameter: its type in the file ('real' or an integer's) and its values."""

    def __init__(self, shape, low=-3.0, high=3.0, dtype="real", values=None, apart=False, bound=None):
        self.shape, self.low, self.high, self.dtype = list(shape), low, high, dtype
        self.values, self.apart, self.bound = values, apart, bound

    def draw(self, rng):
        n = int(np.prod(self.shape))
        if self.values is not None:
            v = np.resize(np.asarray(self.values), n)
        elif self.apart:  # no two alike, so that what is largest or first is no matter of rounding
            v = rng.permutation(np.linspace(self.low, self.high, n))
        elif self.dtype == "real":
            v = rng.uniform(self.low, self.high, n)
        elif self.dtype == "bool":
            v = rng.integers(0, 2, n)
        else:
            v = rng.integers(int(self.low), int(self.high), n)
        if self.dtype == "real":
            return v.astype(np.float32).astype(np.float64).reshape(self.shape)
        return v.astype(TYPES[self.dtype]).reshape(self.shape)


class File:
    def __init__(self, name, head=HEAD):
        self.name, self.text, self.tensors = name, [head], {}
        self.rng = np.random.default_rng(sum(map(ord, name)))

    def put(self, key, value):
        value = np.asarray(value)
        self.tensors[key] = value.astype(np.float64) if value.dtype.kind == "f" else value

    def case(self, name, inputs, outs, grads=(), second=(), cells=None, before=()):
        """outs: (name, netc expression, function of all inputs and cells by keyword).
        grads: which inputs and cells every result is differentiated by; second: by which twice."""
        cells = cells or {}
        values = {k: v.draw(self.rng) for k, v in {**inputs, **cells}.items()}
        outs = [("y_" + o, e, by_name(f, list(inputs))) for o, e, f in outs]  # no result hides a function
        named = list(outs)
        lines, results = list(before), [o for o, _, _ in outs]
        for o, e, _ in outs:
            lines.append(f"{o} = {e}")
        for o, _, f in outs:
            for g in grads:
                d = f"d_{o[2:]}_{g.replace('.', '_')}"
                lines.append(f"{d} = grad(probe({o}), {g})")
                results.append(d)
                df = gradient(f, g)
                named.append((d, "", df))
                if g in second:
                    lines.append(f"d{d} = grad(probe({d}), {g})")
                    results.append("d" + d)
                    named.append(("d" + d, "", gradient(df, g)))
        args = ", ".join(f"{k}: {v.dtype}{v.shape}" + (f" in {v.bound[0]}..{v.bound[1]}" if v.bound else "") for k, v in inputs.items())
        body = "".join(f"    {l}\n" for l in lines)
        self.text.append(f"model {name}({args}) {{\n{body}    return {', '.join(results)}\n}}\n")
        for k in inputs:
            v = values[k]
            self.tensors[f"{name}/in/{k}"] = v.astype(np.float32) if is_float(v) else v
        for k in cells:
            self.tensors[f"{name}/cell/{k}"] = values[k].astype(np.float32)
        for o, _, f in named:
            y = np.asarray(f(**values))
            self.put(f"{name}/out/{o}", y)
            if is_float(y):
                self.tensors[f"{name}/unit/{o}"] = unit(f, values, y, self.rng)

    def write(self):
        with open(os.path.join(HERE, self.name + ".net"), "w") as f:
            f.write("\n".join(self.text))
        entries, blob = {}, b""
        for k, v in self.tensors.items():
            v = np.asarray(v, order="C")
            raw = v.tobytes()
            entries[k] = {"dtype": SAFE[str(v.dtype)], "shape": list(v.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
            blob += raw
        header = json.dumps(entries, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        with open(os.path.join(HERE, self.name + ".safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + blob)
        print(f"{self.name}: {len(self.text) - 1} models, {len(self.tensors)} tensors, {len(blob) // 1024} kB")


def by_name(f, inputs):
    """f takes its inputs in order and its cells by keyword; here all by keyword, floats as JAX's."""
    def g(**values):
        values = {k: jnp.asarray(v) if is_float(v) else v for k, v in values.items()}
        given = [values.pop(k) for k in inputs]
        return f(*given, **values)
    return g


def gradient(f, name):
    def df(**values):
        others = {k: v for k, v in values.items() if k != name}
        return jax.grad(lambda v: probe(f(**{name: v}, **others)))(values[name])
    return df


def unit(f, values, y, rng):
    """The largest change of each element, in multiples of eps, over random relative changes by eps of every float."""
    eps, worst = 2.0**-26, np.abs(y)
    for _ in range(6):
        moved = {k: v * (1 + eps * rng.choice([-1.0, 1.0], v.shape)) if is_float(v) else v for k, v in values.items()}
        d = np.abs(np.asarray(f(**moved)) - y) / eps
        worst = np.fmax(worst, np.where(np.isfinite(d), d, 0))
    top = worst[np.isfinite(worst)].max() if np.isfinite(worst).any() else 0
    return np.maximum(np.where(np.isfinite(worst), worst, 0), top / 64).astype(np.float32)


R = Input
SHAPES = [[1], [7], [3, 5], [2, 1, 33], [65], [129, 3]]


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
        ("normal_", "normalize(x)", lambda x: x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-12)),
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
        ("c", "cosine_similarity(x, y)", lambda x, y: jnp.sum(x * y, -1) / jnp.sqrt((jnp.sum(x * x, -1) + 1e-12) * (jnp.sum(y * y, -1) + 1e-12))),
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


def layers():
    f = File("layers")
    for i, (n, w) in enumerate([(1, 1), (5, 3), (33, 7), (65, 129)]):
        w_, b_ = f"fc_{i}.weight", f"fc_{i}.bias"
        f.case(f"linear_{i}", {"x": R([4, n])}, [("y", f"linear(x, {w}) as fc_{i}", lambda x, **c: x @ c[w_].T + c[b_])], ["x", w_, b_], cells={w_: R([w, n], -1, 1), b_: R([w])})
        w2 = f"bare_{i}.weight"
        f.case(f"bare_{i}", {"x": R([2, 3, n])}, [("y", f"linear(x, {w}, use_bias = false) as bare_{i}", lambda x, **c: x @ c[w2].T)], ["x", w2], cells={w2: R([w, n], -1, 1)})
    for i, n in enumerate([2, 7, 33, 65, 257]):
        lw, lb, rw = f"ln_{i}.weight", f"ln_{i}.bias", f"rms_{i}.weight"
        norm = lambda x, eps=1e-5: (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + eps)
        f.case(f"layer_norm_{i}", {"x": R([3, n])}, [("y", f"layer_norm(x) as ln_{i}", lambda x, **c: norm(x) * c[lw] + c[lb])], ["x", lw, lb], ["x"] if i in (1, 2) else [], cells={lw: R([n]), lb: R([n])})
        f.case(f"plain_norm_{i}", {"x": R([2, 2, n])}, [("y", "layer_norm(x, eps = 0.01, affine = false)", lambda x: norm(x, 0.01))], ["x"])
        f.case(f"rms_norm_{i}", {"x": R([3, n])}, [("y", f"rms_norm(x) as rms_{i}", lambda x, **c: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * c[rw])], ["x", rw], cells={rw: R([n])})
        c4 = {f"bn_{i}.weight": R([n]), f"bn_{i}.bias": R([n]), f"bn_{i}.running_mean": R([n]), f"bn_{i}.running_var": R([n], 0.5, 2)}
        w_, b_, m_, v_ = c4
        f.case(f"batch_norm_{i}", {"x": R([5, n])}, [("y", f"batch_norm(x) as bn_{i}", lambda x, **c: (x - c[m_]) / jnp.sqrt(c[v_] + 1e-5) * c[w_] + c[b_])], ["x", w_, b_], cells=c4)
    for i, (b, n) in enumerate([(1, 1), (3, 5), (7, 33), (33, 65)]):
        lab = {"l": R([b], 0, n, dtype="i32", bound=(0, n))}
        lp = lambda x: jax.nn.log_softmax(x, -1)
        pick = lambda x, l: lp(x)[jnp.arange(x.shape[0]), l]
        f.case(f"loss_{i}", {"x": R([b, n], -4, 4), **lab}, [
            ("ce", "cross_entropy(x, l)", lambda x, l: -jnp.mean(pick(x, l))),
            ("smooth", "cross_entropy(x, l, smoothing = 0.1)", lambda x, l: -jnp.mean(0.9 * pick(x, l) + 0.1 * jnp.mean(lp(x), -1))),
        ], ["x"], ["x"])
        f.case(f"hits_{i}", {"x": R([b, n], apart=True), **lab}, [("y", "accuracy(x, l)", lambda x, l: jnp.mean((jnp.argmax(x, -1) == l) * 1.0))])
        f.case(f"pairs_{i}", {"x": R([b, n], -4, 4), "t": R([b, n], 0, 1)}, [
            ("bce", "bce_with_logits(x, t)", lambda x, t: jnp.mean(-t * jax.nn.log_sigmoid(x) - (1 - t) * jax.nn.log_sigmoid(-x))),
            ("sq", "mse(x, t)", lambda x, t: jnp.mean((x - t) ** 2)), ("ab", "l1(x, t)", lambda x, t: jnp.mean(jnp.abs(x - t))),
            ("hub", "huber(x, t)", lambda x, t: jnp.mean(jnp.where(jnp.abs(x - t) <= 1, 0.5 * (x - t) ** 2, jnp.abs(x - t) - 0.5))),
            ("hub2", "huber(x, t, delta = 2)", lambda x, t: jnp.mean(jnp.where(jnp.abs(x - t) <= 2, 0.5 * (x - t) ** 2, 2 * (jnp.abs(x - t) - 1)))),
        ], ["x", "t"])
        f.case(f"sides_{i}", {"x": R([b, n], -4, 4), "t": R([b, n], dtype="bool")}, [("y", "binary_accuracy(x, t)", lambda x, t: jnp.mean(((x > 0) == t) * 1.0)),
            ("bce", "bce_with_logits(x, t)", lambda x, t: jnp.mean(jnp.logaddexp(0.0, x) - x * t))])
    e = "emb.weight"
    f.case("embedding_0", {"t": R([3, 4], 0, 11, dtype="i32", bound=(0, 11))}, [("y", "embedding(t, 11, 5) as emb", lambda t, **c: c[e][t])], [e], cells={e: R([11, 5])})
    a, b = "one.weight", "two.weight"
    f.case("tied", {"x": R([3, 6], -1, 1)}, [("y", "tanh(linear(tanh(linear(x, 6, use_bias = false) as one), 6, use_bias = false) reuse one)", lambda x, **c: jnp.tanh(jnp.tanh(x @ c[a].T) @ c[a].T))], ["x", a], cells={a: R([6, 6], -1, 1)})
    f.write()


# -- what transformers and recurrent networks are made of ----------------------------------------------
def heads_of(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def multi_head(x, c, name, heads, over=None, shared=None, mask=None, bias=False):
    shared, source = shared or heads, x if over is None else over
    dense = lambda a, n: a @ c[f"{name}.{n}.weight"].T + (c[f"{name}.{n}.bias"] if bias else 0)
    q, k, v = heads_of(dense(x, "query"), heads), heads_of(dense(source, "key"), shared), heads_of(dense(source, "value"), shared)
    k, v = (jnp.repeat(a, heads // shared, axis=1) for a in (k, v))
    s = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        s = jnp.where(mask, s, -jnp.inf)
    y = (jax.nn.softmax(s) @ v).transpose(0, 2, 1, 3)
    return dense(y.reshape(*y.shape[:2], -1), "out")


def norm_of(x, c, name):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * c[name + ".weight"] + c[name + ".bias"]


def mixture(x, c, name, count, top, room, act, gated):
    """Every expert sees every token; choices and capacity only weigh what they make of it."""
    flat = x.reshape(-1, x.shape[-1])
    p = jax.nn.softmax(flat @ c[name + ".router.weight"].T)
    likely, choice = jax.lax.top_k(p, top)
    hot = jax.nn.one_hot(choice, count, dtype=jnp.float64)  # (n, top, count)
    in_order = hot.transpose(1, 0, 2).reshape(-1, count)  # all first choices, then all second ones
    before = (jnp.cumsum(in_order, 0) - in_order).reshape(top, -1, count).transpose(1, 0, 2)
    share = likely / likely.sum(-1, keepdims=True) if top > 1 else likely
    weight = (hot * (before < room) * share[..., None]).sum(1)
    h = jnp.einsum("nc,ehc->neh", flat, c[name + ".up"])
    h = act(jnp.einsum("nc,ehc->neh", flat, c[name + ".gate"])) * h if gated else act(h)
    y = jnp.einsum("neh,ech,ne->nc", h, c[name + ".down"], weight)
    return y.reshape(x.shape), count * jnp.sum(hot.mean((0, 1)) * p.mean(0))


def networks():
    f = File("networks", HEAD.replace("use nn\n", "use nn\nuse transformer\nuse recurrent\n"))
    sizes = lambda name, w, shared, n, bias: {
        f"{name}.{l}.{p}": R(([a, b] if p == "weight" else [a]), -1, 1)
        for l, a, b in (("query", w, w), ("key", shared, n), ("value", shared, n), ("out", w, w)) for p in (("weight", "bias") if bias else ("weight",))}
    causal = lambda n: np.tril(np.ones((n, n), bool))
    near = lambda n, w: causal(n) & ~np.tril(np.ones((n, n), bool), -w)

    c = sizes("own", 6, 6, 6, True)
    f.case("own", {"x": R([2, 5, 6], -1, 1)}, [("y", "multi_head(x, 3, use_bias = true, causal = true) as own",
                                                lambda x, **c: multi_head(x, c, "own", 3, mask=causal(5), bias=True))], ["x", *c], cells=c)
    c = sizes("groups", 12, 6, 12, False)
    f.case("groups", {"x": R([2, 7, 12], -1, 1)}, [("y", "multi_head(x, 4, kv_heads = 2, causal = true, window = 3) as groups",
                                                    lambda x, **c: multi_head(x, c, "groups", 4, shared=2, mask=near(7, 3)))], ["x", *c], cells=c)
    c = sizes("cross", 4, 4, 9, False)
    f.case("cross", {"x": R([3, 4, 4], -1, 1), "z": R([3, 6, 9], -1, 1), "n": R([3], values=[6, 1, 4], dtype="i32")},
           [("y", "multi_head(x, 2, over = z, mask = key_mask(n, 6)) as cross",
             lambda x, z, n, **c: multi_head(x, c, "cross", 2, over=z, mask=np.arange(6) < n[:, None, None, None]))], ["x", "z", *c], cells=c)
    f.case("pieces", {"x": R([2, 4, 6, 3])}, [("y", "patches(x, 2)", lambda x: jnp.stack([x[:, i:i + 2, j:j + 2].reshape(2, -1) for i in (0, 2) for j in (0, 2, 4)], 1))], ["x"])
    c = {"ff.up.weight": R([10, 6], -1, 1), "ff.up.bias": R([10]), "ff.down.weight": R([6, 10], -1, 1), "ff.down.bias": R([6])}
    f.case("feed", {"x": R([2, 3, 6], -1, 1)}, [("y", "mlp(x, 10, act = tanh) as ff", lambda x, **c: jnp.tanh(x @ c["ff.up.weight"].T + c["ff.up.bias"]) @ c["ff.down.weight"].T + c["ff.down.bias"])], ["x", *c], cells=c)
    c = {"glu.gate.weight": R([10, 6], -1, 1), "glu.up.weight": R([10, 6], -1, 1), "glu.down.weight": R([6, 10], -1, 1)}
    f.case("gated", {"x": R([2, 3, 6], -1, 1)}, [("y", "swiglu(x, 10) as glu", lambda x, **c: (jax.nn.silu(x @ c["glu.gate.weight"].T) * (x @ c["glu.up.weight"].T)) @ c["glu.down.weight"].T)], ["x", *c], cells=c)
    for kind, first in (("before", True), ("behind", False)):
        c = {**sizes(f"{kind}.attn", 6, 6, 6, False), **{f"{kind}.{n}.{p}": R([6]) for n in ("norm1", "norm2") for p in ("weight", "bias")},
             f"{kind}.ff.up.weight": R([8, 6], -1, 1), f"{kind}.ff.down.weight": R([6, 8], -1, 1)}

        def run(x, kind=kind, first=first, **c):
            see = lambda a: multi_head(a, c, f"{kind}.attn", 2, mask=causal(4))
            feed = lambda a: jnp.tanh(a @ c[f"{kind}.ff.up.weight"].T) @ c[f"{kind}.ff.down.weight"].T
            if first:
                x = x + see(norm_of(x, c, f"{kind}.norm1"))
                return x + feed(norm_of(x, c, f"{kind}.norm2"))
            x = norm_of(x + see(x), c, f"{kind}.norm1")
            return norm_of(x + feed(x), c, f"{kind}.norm2")
        f.case(kind, {"x": R([2, 4, 6], -1, 1)}, [("y", f"block(x, multi_head(heads = 2, causal = true), mlp(hidden = 8, act = tanh, use_bias = false), first = {str(first).lower()}) as {kind}", run)], ["x", *c], cells=c)

    def rounds(x, c, step, width, carried=1):
        s, all = [jnp.zeros((x.shape[0], width))] * carried, []
        into = x @ c["input.weight"].T + c["input.bias"]
        for t in range(x.shape[1]):
            s = step(into[:, t], *s)
            all.append(s[0])
        return jnp.stack(all, 1)

    def gru(a, h, c):
        ar, au, an = jnp.split(a, 3, -1)
        hr, hu, hn = jnp.split(h @ c["hidden"].T + c["bias"], 3, -1)
        u = jax.nn.sigmoid(au + hu)
        return [(1 - u) * jnp.tanh(an + jax.nn.sigmoid(ar + hr) * hn) + u * h]

    def lstm(a, h, m, c):
        i, g, n, o = jnp.split(a + h @ c["hidden"].T, 4, -1)
        m = jax.nn.sigmoid(g + 1) * m + jax.nn.sigmoid(i) * jnp.tanh(n)
        return [jax.nn.sigmoid(o) * jnp.tanh(m), m]
    for kind, gates, step, carried in (("rnn", 1, lambda a, h, c: [jnp.tanh(a + h @ c["hidden"].T)], 1), ("gru", 3, gru, 1), ("lstm", 4, lstm, 2)):
        for b, t, n, w in ((2, 4, 3, 5), (1, 1, 1, 1), (3, 7, 5, 9)):
            name = f"{kind}_{b}"
            c = {f"{name}.input.weight": R([gates * w, n], -1, 1), f"{name}.input.bias": R([gates * w], -1, 1), f"{name}.hidden": R([gates * w, w], -1, 1)}
            if kind == "gru":
                c[f"{name}.bias"] = R([gates * w], -1, 1)

            def run(x, name=name, step=step, w=w, carried=carried, **c):
                c = {k[len(name) + 1:]: v for k, v in c.items()}
                return rounds(x, c, lambda a, *s: step(a, *s, c), w, carried)
            last = {"rnn": "all, last", "gru": "all, last", "lstm": "all, last, cell"}[kind]
            f.case(name, {"x": R([b, t, n], -1, 1)}, [("y", "states", run)], ["x", *c], cells=c, before=[f"{last.replace('all', 'states')} = {kind}(x, {w}) as {name}"])
    # Seven of fourteen choices at most: of each expert three; then one expert a token, of all that come.
    for name, top, capacity, room, act, gated in (("mix", 2, 0.6, 3, jax.nn.silu, True), ("one", 1, None, 7, lambda a: jax.nn.relu(a) ** 2, False)):
        c = {f"{name}.router.weight": R([3, 4], -2, 2), f"{name}.up": R([3, 5, 4], -1, 1), f"{name}.down": R([3, 4, 5], -1, 1)}
        if gated:
            c[f"{name}.gate"] = R([3, 5, 4], -1, 1)
        run = lambda x, a=(name, 3, top, room, act, gated), **c: sum(mixture(x, c, *a))
        how = "" if gated else ", act = relu_squared, gated = false"
        f.case(name, {"x": R([1, 7, 4], -1, 1)}, [("y", "made + balance", run)], ["x", *c], cells=c,
            before=[f"made, balance = experts(x, 3, 5, top = {top}, capacity = {'none' if capacity is None else capacity}{how}) as {name}"])
    f.write()


# -- eight steps of training: optimizers, schedules, clipping, batch norm's statistics -----------------
OPTIMIZERS = {  # a parameter: what the file says, one step of it (p, g, s, k) -> p with states in s, from step k
    "plain": ("sgd(lr = 0.1)", lambda p, g, s, k: sgd(p, g, s, 0.1)),
    "decayed": ("sgd(lr = 0.1, weight_decay = 0.2)", lambda p, g, s, k: sgd(p, g + 0.2 * p, s, 0.1)),
    "heavy": ("sgd(lr = 0.1, momentum = 0.8)", lambda p, g, s, k: sgd(p, g, s, 0.1, 0.8)),
    "nesterov": ("sgd(lr = 0.1, momentum = 0.8, nesterov = true, weight_decay = 0.1)", lambda p, g, s, k: sgd(p, g + 0.1 * p, s, 0.1, 0.8, True)),
    "adam_": ("adam(lr = 0.02)", lambda p, g, s, k: adam(p, g, s, k, 0.02)),
    "adam_l2": ("adam(lr = 0.02, beta1 = 0.8, beta2 = 0.9, eps = 1e-3, weight_decay = 0.1)", lambda p, g, s, k: adam(p, g + 0.1 * p, s, k, 0.02, 0.8, 0.9, 1e-3)),
    "adamw_": ("adamw(lr = 0.02, weight_decay = 0.3)", lambda p, g, s, k: adam(p, g, s, k, 0.02) - 0.02 * 0.3 * p),
    "rms": ("rmsprop(lr = 0.02, decay = 0.9)", lambda p, g, s, k: rmsprop(p, g, s, 0.02, 0.9)),
    "rms_heavy": ("rmsprop(lr = 0.02, momentum = 0.5)", lambda p, g, s, k: rmsprop(p, g, s, 0.02, 0.99, 0.5)),
    "ada": ("adagrad(lr = 0.1)", lambda p, g, s, k: adagrad(p, g, s, 0.1)),
    "lion_": ("lion(lr = 0.02, weight_decay = 0.3)", lambda p, g, s, k: lion(p, g, s, 0.02) - 0.02 * 0.3 * p),
    "factored_v": ("adafactor(lr = 0.03)", lambda p, g, s, k: adafactor(p, g, s, k, 0.03)),
    "lamb_": ("lamb(lr = 0.02, weight_decay = 0.1)", lambda p, g, s, k: lamb(p, g, s, k, 0.02, 0.1)),
    "ahead": ("sgd(lr = 0.1)", lambda p, g, s, k: sgd(p, g, s, 0.1)),
    "by_cycle": ("sgd(lr = one_cycle(0.3, steps = 7, up = 0.4))", lambda p, g, s, k: sgd(p, g, s, one_cycle(0.3, k, 7, 0.4))),
    "by_restarts": ("sgd(lr = cosine_restarts(0.3, first = 3, final = 0.01))", lambda p, g, s, k: sgd(p, g, s, restarts(0.3, k, 3, 1))),
    "by_longer": ("sgd(lr = cosine_restarts(0.3, first = 1, longer = 2, final = 0.01))", lambda p, g, s, k: sgd(p, g, s, restarts(0.3, k, 1, 2))),
    "by_wsd": ("sgd(lr = wsd(0.3, steps = 7, warmup = 2, down = 0.5, final = 0.1))",
               lambda p, g, s, k: sgd(p, g, s, min(0.3 * (k + 1) / 2, 0.1 + 0.2 * min(1, max(0, (7 - k) / 3.5))))),
    "by_cosine": ("sgd(lr = cosine(0.3, steps = 7, warmup = 2, final = 0.01))",
                  lambda p, g, s, k: sgd(p, g, s, 0.3 * (k + 1) / 2 if k < 2 else 0.01 + 0.29 * 0.5 * (1 + math.cos(math.pi * min((k - 2) / 5, 1))))),
    "by_line": ("sgd(lr = linear_decay(0.3, steps = 6, warmup = 1, final = 0.1))",
                lambda p, g, s, k: sgd(p, g, s, 0.3 * (k + 1) if k < 1 else 0.3 - 0.2 * min((k - 1) / 5, 1))),
    "by_stairs": ("sgd(lr = step_decay(0.3, every = 3, factor = 0.5))", lambda p, g, s, k: sgd(p, g, s, 0.3 * 0.5 ** (k // 3))),
    "by_warmth": ("sgd(lr = constant_lr(0.3, warmup = 4))", lambda p, g, s, k: sgd(p, g, s, 0.3 * min(1, (k + 1) / 4))),
    "by_rise": ("sgd(lr = linear_warmup(0.3, warmup = 5))", lambda p, g, s, k: sgd(p, g, s, 0.3 * min(1, (k + 1) / 5))),
}


def sgd(p, g, s, lr, momentum=0.0, nesterov=False):
    if momentum:
        s["velocity"] = momentum * s.get("velocity", 0 * g) + g
        g = g + momentum * s["velocity"] if nesterov else s["velocity"]
    return p - lr * g


def adam(p, g, s, k, lr, b1=0.9, b2=0.999, eps=1e-8):
    s["m"] = b1 * s.get("m", 0 * g) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0 * g) + (1 - b2) * g * g
    return p - lr * (s["m"] / (1 - b1 ** (k + 1))) / (jnp.sqrt(s["v"] / (1 - b2 ** (k + 1))) + eps)


def rmsprop(p, g, s, lr, decay, momentum=0.0):
    s["v"] = decay * s.get("v", 0 * g) + (1 - decay) * g * g
    d = g / (jnp.sqrt(s["v"]) + 1e-8)
    if momentum:
        d = s["velocity"] = momentum * s.get("velocity", 0 * g) + d
    return p - lr * d


def adagrad(p, g, s, lr):
    s["sum"] = s.get("sum", 0 * g) + g * g
    return p - lr * g / (jnp.sqrt(s["sum"]) + 1e-10)


def lion(p, g, s, lr):
    m = s.get("m", 0 * g)
    s["m"] = 0.99 * m + 0.01 * g
    return p - lr * jnp.sign(0.9 * m + 0.1 * g)


def lamb(p, g, s, k, lr, wd):
    s["m"] = 0.9 * s.get("m", 0 * g) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0 * g) + 0.001 * g * g
    d = s["m"] / (1 - 0.9 ** (k + 1)) / (jnp.sqrt(s["v"] / (1 - 0.999 ** (k + 1))) + 1e-6) + wd * p
    return p - lr * jnp.sqrt(jnp.sum(p * p) / jnp.sum(d * d)) * d


def one_cycle(lr, k, steps, up):
    """As torch.optim.lr_scheduler.OneCycleLR anneals."""
    def between(a, b, t):
        return b + (a - b) / 2 * (1 + math.cos(math.pi * t))
    top = up * steps - 1
    return between(lr / 25, lr, k / top) if k <= top else between(lr, lr / 25 / 1e4, min(1, (k - top) / (steps - 1 - top)))


def restarts(lr, k, first, longer):
    begin, length = 0, first
    while k >= begin + length:
        begin, length = begin + length, length * longer
    return 0.01 + (lr - 0.01) * (1 + math.cos(math.pi * (k - begin) / length)) / 2


def adafactor(p, g, s, k, lr):
    beta, squares = 1 - (k + 1.0) ** -0.8, g * g + 1e-30
    if p.ndim < 2:
        s["v"] = beta * s.get("v", 0 * g) + (1 - beta) * squares
        d = g / jnp.sqrt(s["v"])
    else:
        s["rows"] = beta * s.get("rows", 0 * g[:, 0]) + (1 - beta) * squares.mean(1)
        s["cols"] = beta * s.get("cols", 0 * g[0]) + (1 - beta) * squares.mean(0)
        d = g / jnp.sqrt(jnp.outer(s["rows"], s["cols"]) / s["rows"].mean())
    return p - lr * d / jnp.maximum(1, jnp.sqrt(jnp.mean(d * d)))


def muon(p, g, s, lr, wd=0.0):
    s["velocity"] = 0.95 * s.get("velocity", 0 * g) + g
    x = g + 0.95 * s["velocity"]
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (jnp.sqrt(jnp.sum(x * x)) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (2.0315 * a @ a - 4.775 * a) @ x
    return p - lr * (max(1, p.shape[0] / p.shape[1]) ** 0.5 * (x.T if tall else x) + wd * p)


MATRICES = {  # name: shape, the rest as above
    "tall": ((4, 3), "muon(lr = 0.02)", lambda p, g, s, k: muon(p, g, s, 0.02)),
    "wide": ((2, 3), "muon(lr = 0.02, weight_decay = 0.1)", lambda p, g, s, k: muon(p, g, s, 0.02, 0.1)),
    "factored": ((4, 3), "adafactor(lr = 0.03)", lambda p, g, s, k: adafactor(p, g, s, k, 0.03)),
}


def train_eight(x, t, **params):
    """All cells after eight steps, and the loss of the last one."""
    names = list(OPTIMIZERS)

    def loss_of(params):
        h = (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5) * params["bn.weight"] + params["bn.bias"]
        of = [h @ params[n] for n in names] + [jnp.tanh(h @ params[n].T).sum(-1) for n in MATRICES]
        return sum(jnp.mean((y - t) ** 2) for y in of) / len(of)

    steps = {**{n: OPTIMIZERS[n][1] for n in names}, **{n: MATRICES[n][2] for n in MATRICES}}
    states, mean, var = {n: {} for n in steps}, 0 * x[0], 0 * x[0] + 1
    for k in range(8):
        loss, grads = jax.value_and_grad(loss_of)(params)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads.values()))
        grads = {n: jnp.clip(g * jnp.minimum(1, 0.5 / (norm + 1e-6)), -0.125, 0.125) for n, g in grads.items()}
        new = {n: steps[n](params[n], grads[n], states[n], k) for n in steps}
        slow = states["ahead"].setdefault("slow", params["ahead"])
        if k % 3 == 2:
            new["ahead"] = states["ahead"]["slow"] = slow + 0.4 * (new["ahead"] - slow)
        for n in ("bn.weight", "bn.bias"):
            new[n] = sgd(params[n], grads[n], {}, 0.05)
        params = new
        mean, var = mean + 0.1 * (x.mean(0) - mean), var + 0.1 * (x.var(0) * len(x) / (len(x) - 1) - var)
    cells = {**params, "bn.running_mean": mean, "bn.running_var": var}
    return {**cells, **{f"{n}.{k}": v for n, s in states.items() for k, v in s.items()}, "loss": loss}


def training():
    f = File("training", "# Made by tests/golden/make.py: eight steps, one parameter for each optimizer.\nuse nn\nuse optim\n")
    names = list(OPTIMIZERS)
    lines = [f"param {n}: f32[3] = 0" for n in names] + [f"param {n}: f32{list(MATRICES[n][0])} = 0" for n in MATRICES]
    lines += ["h = batch_norm(x) as bn", "total_loss = 0"]
    lines += [f"total_loss = total_loss + mse(sum(h * {n}, -1), t)" for n in names]
    lines += [f"total_loss = total_loss + mse(sum(tanh(matmul(h, transpose({n}))), -1), t)" for n in MATRICES]
    body = "".join(f"    {l}\n" for l in lines)
    rules = {**{n: OPTIMIZERS[n][0] for n in names}, **{n: MATRICES[n][1] for n in MATRICES}}
    updates = "".join(f"    update {rule} for params(\"{n}\")\n" for n, rule in rules.items())
    f.text.append(f"model m(x: f32[5, 3], t: f32[5]) {{\n{body}    return loss = total_loss / {len(rules)}\n}}\n")
    f.text.append("fn clipped(grads) { return clip_value(clip_global_norm(grads, 0.5), 0.125) }\n")
    f.text.append(f"train m {{\n    minimize loss\n    clip clipped\n{updates}    update lookahead(every = 3, share = 0.4) for params(\"ahead\")\n    update sgd(lr = 0.05) for rest\n}}\n")
    values = {"x": R([5, 3]).draw(f.rng), "t": R([5]).draw(f.rng), **{n: R([3]).draw(f.rng) for n in names + ["bn.weight", "bn.bias"]}, **{n: R(MATRICES[n][0]).draw(f.rng) for n in MATRICES}}
    for k, v in values.items():
        f.tensors[f"train/{'in' if k in 'xt' else 'cell'}/{k}"] = v.astype(np.float32)
    f.tensors["train/cell/bn.running_var"] = np.ones(3, np.float32)  # as it begins, for the evaluator
    f.tensors["train/cell/ahead.slow"] = f.tensors["train/cell/ahead"]
    after = train_eight(**{k: jnp.asarray(v) for k, v in values.items()})
    for k in after:  # cells by name, and the loss
        f.put(f"train/out/{k}", after[k])
        f.tensors[f"train/unit/{k}"] = unit(lambda **v: train_eight(**{n: jnp.asarray(a) for n, a in v.items()})[k], values, np.asarray(after[k]), f.rng)
    f.write()


# -- other weights: a target network, an average to evaluate with, a low-rank change -----------------------
WEIGHTS = """# Made by tests/golden/make.py: eight steps of Q-learning, whose goal comes from a target network; an adapter beside it.
use nn
use optim

fn q(s) { return linear(tanh(linear(s, 4) as body), 3) as top }

model m(x: f32[5, 3], next: f32[5, 3], action: i32[5] in 0..3, reward: f32[5]) {
    now = q(x) as q
    goal = reward + 0.9 * max(q(next) reuse q with target, 1)
    adapted = q(next) reuse q with lora(size = 2, scale = 0.5)
    return loss = mse(sum(now * one_hot(action, 3), 1), goal) + 0.1 * mean(square(adapted))
}

train m {
    minimize loss
    update sgd(lr = 0.1)
    update target(every = 3)
    update ema(decay = 0.8)
    minimize loss over params("*.up")
    update sgd(lr = 0.05)
    evaluate with ema
}
"""


def q_loss(x, next, action, reward, read, read_target):
    q = lambda s, c: jnp.tanh(s @ c("q.body.weight").T + c("q.body.bias")) @ c("q.top.weight").T + c("q.top.bias")
    low = lambda n: read(n) + (0.5 * read(n + ".up") @ read(n + ".down") if n.endswith("weight") else 0)
    chosen = jnp.sum(q(x, read) * jax.nn.one_hot(action, 3, dtype=jnp.float64), 1)
    goal = reward + 0.9 * jnp.max(q(next, lambda n: jax.lax.stop_gradient(read_target(n))), 1)
    return jnp.mean((chosen - goal) ** 2) + 0.1 * jnp.mean(q(next, low) ** 2)


def learn_eight(x, next, action, reward, **c):
    c = {k: jnp.asarray(v) for k, v in c.items()}
    names = [k for k in c if not k.endswith((".copy", ".average"))]
    loss_of = lambda p: q_loss(x, next, action, reward, p.get, lambda n: c[n + ".copy"])
    for k in range(8):
        p = {n: c[n] for n in names}
        loss, g = jax.value_and_grad(loss_of)(p)
        p = {n: p[n] - 0.1 * g[n] for n in names}
        moved = {n + ".copy": p[n] for n in names if n + ".copy" in c} if (k + 1) % 3 == 0 else {}
        means = {n + ".average": 0.8 * c[n + ".average"] + 0.2 * p[n] for n in names}
        g = jax.grad(loss_of)(p)  # the model runs again with the new parameters, and the old target
        p = {n: p[n] - 0.05 * g[n] if n.endswith(".up") else p[n] for n in names}
        c = {**c, **p, **moved, **means}
    return {**c, "loss": loss}


def weights():
    f = File("weights", WEIGHTS)
    sizes = {"q.body.weight": (4, 3), "q.body.bias": (4,), "q.top.weight": (3, 4), "q.top.bias": (3,),
             "q.body.weight.down": (2, 3), "q.body.weight.up": (4, 2), "q.top.weight.down": (2, 4), "q.top.weight.up": (3, 2)}
    values = {"x": R([5, 3]), "next": R([5, 3]), "action": R([5], 0, 3, dtype="i32"), "reward": R([5])}
    values = {k: v.draw(f.rng) for k, v in {**values, **{n: R(s, -1, 1) for n, s in sizes.items()}}.items()}
    for n in sizes:
        values[n + ".average"] = R(sizes[n], -1, 1).draw(f.rng)
        values[n + ".copy"] = R(sizes[n], -1, 1).draw(f.rng)
    evaluated = lambda x, next, action, reward, **c: {"loss": q_loss(x, next, action, reward, lambda n: c[n + ".average"], lambda n: c[n + ".copy"])}
    for entry, run in (("train", learn_eight), ("eval", evaluated)):
        for k, v in values.items():
            f.tensors[f"{entry}/{'cell' if k in sizes or k.count('.') > 1 else 'in'}/{k}"] = v.astype(np.float32) if is_float(v) else v
        after = run(**values)
        for k in after:
            f.put(f"{entry}/out/{k}", after[k])
            f.tensors[f"{entry}/unit/{k}"] = unit(lambda **v: run(**v)[k], values, np.asarray(after[k]), f.rng)
    f.write()


def conv(stride=1, padding=0, dilation=1, groups=1):
    """Channels last, weights (out, size..., in), through JAX's own convolution."""
    def f(x, w):
        n = x.ndim - 2
        each = lambda v: list(v) if isinstance(v, (list, tuple)) else [v] * n
        pads = padding.upper() if isinstance(padding, str) else [p if isinstance(p, (list, tuple)) else (p, p) for p in each(padding)]
        y = jax.lax.conv_general_dilated(jnp.moveaxis(x, -1, 1), jnp.moveaxis(w, -1, 1), each(stride), pads, rhs_dilation=each(dilation), feature_group_count=groups)
        return jnp.moveaxis(y, 1, -1)
    return f


def pooled(x, size, stride, pads, fill, dilation=1):
    """(B, h, w, elements, C): the elements of each window, in order."""
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill)
    at = [jnp.arange(0, x.shape[1 + i] - (size[i] - 1) * dilation, stride[i])[:, None] + jnp.arange(size[i]) * dilation for i in range(2)]
    w = x[:, at[0][:, None, :, None], at[1][None, :, None, :]]
    return w.reshape(*w.shape[:3], -1, x.shape[-1])


def largest(w):
    return jnp.take_along_axis(w, jnp.argmax(w, -2)[..., None, :], -2)[..., 0, :]


def convolutions():
    f = File("convolutions", HEAD.replace("use nn\n", "use nn\nuse conv\n"))
    def convs(name, x, w, rows, second=()):
        outs = []
        for i, o in enumerate(rows):
            text = "".join(f", {k} = {json.dumps(v)}" for k, v in o.items())
            outs.append(("abcdefgh"[i], f"convolve(x, w{text})", conv(**{"padding": "same", **o})))
        f.case(name, {"x": R(x), "w": R(w)}, outs, ["x", "w"], second)
    convs("lines", [2, 9, 3], [2, 4, 3], [dict(), dict(stride=3, padding="valid"), dict(dilation=2, padding=[[3, 1]]), dict(stride=2, dilation=2), dict(stride=2, dilation=3, padding=4)])
    convs("planes", [2, 7, 6, 3], [2, 3, 2, 3], [dict(), dict(stride=2), dict(stride=[1, 3], padding=[1, 0]), dict(dilation=[2, 1], padding="valid"), dict(stride=[3, 2], dilation=[1, 3], padding=[[0, 2], [3, 1]])])
    convs("wide", [1, 9, 8, 2], [2, 5, 7, 2], [dict(stride=2), dict(stride=3, padding=3)])
    convs("points", [2, 5, 4, 3], [2, 1, 1, 3], [dict(), dict(stride=2)])
    convs("twice", [1, 4, 5, 1], [1, 3, 2, 1], [dict(stride=2)], ["x", "w"])
    convs("groups", [2, 6, 5, 4], [6, 3, 2, 2], [dict(groups=2), dict(groups=2, stride=2, padding=1)])
    convs("each", [2, 6, 5, 3], [3, 3, 2, 1], [dict(groups=3), dict(groups=3, stride=2, dilation=2, padding=2)])
    convs("more", [2, 5, 2], [4, 3, 1], [dict(groups=2)])
    convs("solids", [1, 4, 5, 3, 2], [2, 3, 2, 2, 2], [dict(), dict(stride=[2, 1, 2], padding=1)])
    convs("solid_each", [1, 4, 3, 3, 2], [2, 2, 3, 2, 1], [dict(groups=2, stride=[1, 2, 1])])
    def turned(shape, **o):  # the gradient of a convolution's input
        return lambda x, w: jax.vjp(lambda z: conv(**{"padding": "same", **o})(z, jnp.swapaxes(w, 0, -1)), jnp.zeros((x.shape[0], *shape, w.shape[0])))[1](x)[0]
    f.case("turned", {"x": R([2, 3, 2, 3]), "w": R([2, 3, 4, 3])}, [
        ("a", "convolve_transpose(x, w, stride = 2)", turned([6, 4], stride=2)), ("b", "convolve_transpose(x, w)", turned([3, 2])),
        ("c", "convolve_transpose(x, w, stride = [2, 5], padding = \"valid\")", turned([7, 9], stride=[2, 5], padding="valid")),
        ("d", "convolve_transpose(x, w, stride = 3, padding = 1)", turned([7, 5], stride=3, padding=1)),
    ], ["x", "w"])
    f.case("pools", {"x": R([2, 7, 6, 2], apart=True), "t": R([1, 5, 6, 2], values=[1, 3, 3, 2, 3, 1, -2])}, [
        ("max", "max_pool(x, 2)", lambda x, t: largest(pooled(x, (2, 2), (2, 2), ((0, 0), (0, 0)), -jnp.inf))),
        ("over", "max_pool(x, 3, stride = 2, padding = 1)", lambda x, t: largest(pooled(x, (3, 3), (2, 2), ((1, 1), (1, 1)), -jnp.inf))),
        ("apart", "max_pool(x, [2, 3], stride = 1, dilation = 2)", lambda x, t: largest(pooled(x, (2, 3), (1, 1), ((0, 0), (0, 0)), -jnp.inf, 2))),
        ("equal", "max_pool(t, 3, stride = [1, 2], padding = \"same\")", lambda x, t: largest(pooled(t, (3, 3), (1, 2), ((1, 1), (0, 1)), -jnp.inf))),
        ("mean", "avg_pool(x, [3, 2])", lambda x, t: pooled(x, (3, 2), (3, 2), ((0, 0), (0, 0)), 0).mean(-2)),
        ("same", "avg_pool(x, 3, stride = 2, padding = \"same\")",
         lambda x, t: pooled(x, (3, 3), (2, 2), ((1, 1), (0, 1)), 0).sum(-2) / pooled(jnp.ones((1, 7, 6, 1)), (3, 3), (2, 2), ((1, 1), (0, 1)), 0).sum(-2)),
        ("all", "global_avg_pool(x)", lambda x, t: x.mean((1, 2))), ("top", "global_max_pool(x)", lambda x, t: x.max((1, 2))),
    ], ["x", "t"])
    def group_norm(x, g):
        v = x.reshape(x.shape[0], -1, g, x.shape[-1] // g)
        return ((v - v.mean((1, 3), keepdims=True)) / jnp.sqrt(v.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)
    f.case("norms", {"x": R([2, 3, 4, 6])}, [
        ("groups", "group_norm(x, 2, affine = false)", lambda x: group_norm(x, 2)), ("each", "instance_norm(x, affine = false)", lambda x: group_norm(x, 6)),
    ], ["x"])
    f.case("einsums", {"a": R([2, 3, 4]), "b": R([4, 2, 5])}, [
        ("a", 'einsum("ijk,kil->ijl", a, b)', lambda a, b: jnp.einsum("ijk,kil->ijl", a, b)), ("b", 'einsum("ijk,kil->lj", a, b)', lambda a, b: jnp.einsum("ijk,kil->lj", a, b)),
        ("c", 'einsum("ijk,kml->mj", a, b)', lambda a, b: jnp.einsum("ijk,kml->mj", a, b)), ("d", 'einsum("ijk,kil->", a, b)', lambda a, b: jnp.einsum("ijk,kil->", a, b)),
    ], ["a", "b"], ["a"])
    convs("solid_groups", [2, 4, 5, 3, 4], [6, 2, 3, 2, 2], [dict(groups=2), dict(groups=2, stride=[2, 1, 2], padding="valid"), dict(groups=2, dilation=[2, 1, 1], stride=2, padding=1)])
    def resized(size, mode, at=None):  # at: middles of the result's pixels along both axes, else JAX's own convention
        def f(x):
            if at is None:
                return jax.image.resize(x, (x.shape[0], *size, x.shape[-1]), {"linear": "bilinear"}.get(mode, mode), antialias=False)
            places = jnp.meshgrid(*[jnp.linspace(0, x.shape[1 + i] - 1, size[i]) for i in range(2)], indexing="ij")
            one = lambda v: jax.scipy.ndimage.map_coordinates(v, places, order=1)
            return jax.vmap(jax.vmap(one, -1, -1))(x)
        return f
    f.case("resized", {"x": R([2, 4, 6, 2])}, [
        ("large", "resize(x, [7, 9])", resized((7, 9), "linear")), ("small", "resize(x, [3, 4])", resized((3, 4), "linear")),
        ("twice", "upsample(x, 2, mode = \"linear\")", resized((8, 12), "linear")), ("near", "resize(x, [7, 4], mode = \"nearest\")", resized((7, 4), "nearest")),
        ("blocks", "upsample(x, [2, 3])", resized((8, 18), "nearest")), ("corners", "resize(x, [7, 3], corners = true)", resized((7, 3), "linear", True)),
        ("one", "resize(x, 1)", resized((1, 1), "linear")),
    ], ["x"])
    f.case("rounded_up", {"x": R([2, 7, 6, 2], apart=True)}, [
        ("max", "max_pool(x, 3, stride = 2, round_up = true)", lambda x: largest(pooled(x, (3, 3), (2, 2), ((0, 0), (0, 1)), -jnp.inf))),
        ("cut", "max_pool(x, 2, stride = 2, padding = 1, round_up = true)", lambda x: largest(pooled(x, (2, 2), (2, 2), ((1, 1), (1, 1)), -jnp.inf))),
        ("mean", "avg_pool(x, 2, stride = 3, round_up = true)",
         lambda x: pooled(x, (2, 2), (3, 3), ((0, 1), (0, 0)), 0).sum(-2) / pooled(jnp.ones((1, 7, 6, 1)), (2, 2), (3, 3), ((0, 1), (0, 0)), 0).sum(-2)),
    ], ["x"])
    f.write()


if __name__ == "__main__":
    for make in (elementwise, integers, reductions, views, products, layers, networks, convolutions, training, weights):
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make()
