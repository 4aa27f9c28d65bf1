"""Entries in JAX: functions under jit, grad and vmap, which XLA calls through its FFI."""

import collections
import functools
import secrets
import weakref

import jax
import numpy
from jax.custom_derivatives import SymbolicZero

from . import _netc
from ._error import Error
from ._function import Function

_TYPES = {"bool": "bool", "u8": "uint8", "i32": "int32", "u32": "uint32", "i64": "int64",
          "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
_FLOATS = ("bf16", "f16", "f32", "f64")


@functools.cache
def _register():
    cpu, cuda, graphs = _netc.ffi_handlers()
    for name, platform, handler in (("call", "cpu", cpu), ("call", "CUDA", cuda), ("call_in_graphs", "CUDA", graphs)):
        jax.ffi.register_ffi_target(f"netc_{name}", handler, platform=platform)


@jax.tree_util.register_static
class _Wanted(tuple):
    """Which inputs a gradient is wanted of: known while tracing."""


class _Calls:
    """A function's compiled entries, each under a key by which compiled code of XLA's finds it,
    for as long as this lives. graphs: XLA may make them part of its CUDA graphs; it provides their
    temporaries then."""

    def __init__(self, graphs):
        _register()
        self.graphs, self.keys = graphs, {}
        weakref.finalize(self, _forget, self.keys)

    def __call__(self, entry, arrays):
        if entry not in self.keys:
            self.keys[entry] = secrets.randbits(62)  # no other process's: compiled code may be kept in files
            _netc.called()[self.keys[entry]] = entry
        results = [jax.ShapeDtypeStruct(shape, _TYPES[dtype]) for _, dtype, shape, _ in entry.outputs]
        if not results:
            return []
        if self.graphs:
            entry.warm_up()  # XLA need not call it once before it captures it
            results.append(jax.ShapeDtypeStruct((entry.temporaries + 256,), "uint8"))
        name = "netc_call_in_graphs" if self.graphs else "netc_call"
        call = jax.ffi.ffi_call(name, results, vmap_method="sequential")
        return call(*arrays, key=numpy.int64(self.keys[entry]))[:len(entry.outputs)]


def _forget(keys):
    for key in keys.values():
        _netc.called().pop(key, None)


class JaxFunction:
    """An entry on JAX arrays: Model.jax says how."""

    def __init__(self, model, entry, params, outputs, training, graphs):
        self._function = f = Function(model, entry, params, outputs, training)
        if f.writes:
            raise Error(f"'{f.name}' changes states (the count of its draws of random numbers, too), which a "
                        "function of JAX cannot: call the model, or make them inputs and outputs")
        wide = [name for name, dtype, _ in f.inputs + f.outputs + f.kept if dtype in ("i64", "f64")]
        if wide and not jax.config.jax_enable_x64:
            raise Error(f"{', '.join(wide)} of '{f.name}' are of 64 bits, which JAX has only with jax_enable_x64")
        if graphs and f.keeping.checks:
            raise Error(f"'{f.name}' checks indices or asserts, which a CUDA graph could not report: state the range of "
                        "indices where they are declared (i: i32[n] in 0..10), or leave out graphs=True")
        self._calls, self._names = _Calls(graphs and f.device != "cpu"), [name for name, _, _ in f.inputs]
        self._tuple = collections.namedtuple(f.name, [name for name, _, _ in f.outputs], rename=True)
        self._call = jax.custom_vjp(self._primal)
        self._call.defvjp(self._forward, self._backward, symbolic_zeros=True)

    def _primal(self, *arrays):
        return tuple(self._calls(self._function.plain, arrays))

    def _forward(self, *primals):
        arrays = [p.value for p in primals]
        results, n = self._calls(self._function.keeping, arrays), len(self._function.outputs)
        wanted = _Wanted(p.perturbed for p in primals)
        return tuple(results[:n]), (wanted, arrays, results[n:])

    def _backward(self, saved, cotangents):
        f, (wanted, arrays, kept) = self._function, saved
        of = [i for i, ((_, dtype, _), d) in enumerate(zip(f.outputs, cotangents))
              if dtype in _FLOATS and not isinstance(d, SymbolicZero)]
        wanted = [name for (name, dtype, _), w in zip(f.inputs, wanted) if w and dtype in _FLOATS]
        if not of or not wanted:
            return (None,) * len(self._names)
        given = dict(zip(self._names, arrays))
        given.update(zip([name for name, _, _ in f.kept], kept))
        given.update((f"@d.{f.outputs[i][0]}", cotangents[i]) for i in of)
        entry = f.gradients(wanted, [f.outputs[i][0] for i in of])
        results = self._calls(entry, [given[name] for name, _, _, _ in entry.inputs])
        found = dict(zip([name for name, _, _, _ in entry.outputs], results))
        return tuple(found.get(name) for name in self._names)

    def __call__(self, *args, params=None, **inputs):
        f, arrays = self._function, []
        for (name, dtype, shape), x in zip(f.inputs, f.arrange(args, inputs, params)):
            if not hasattr(x, "dtype"):
                x = jax.numpy.asarray(x, _TYPES[dtype])
            if x.dtype != _TYPES[dtype] or x.shape != shape:
                raise Error(f"input '{name}' is {dtype}{list(shape)}, the array given is {x.dtype}{list(x.shape)}")
            arrays.append(x)
        results = self._call(*arrays)
        return results[0] if len(results) == 1 else self._tuple(*results)

    def __repr__(self):
        return repr(self._function)
