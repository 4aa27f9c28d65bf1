"""What the golden files share: inputs, cases with their gradients, and the sensitivity of each result."""
import json
import os
import struct

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
