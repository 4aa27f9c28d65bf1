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
    """Which inputs need a gradient; known while tracing."""


class _Calls:
    """The compiled entries of a function, each under a key by which XLA's compiled code finds it as long
    as this object lives. graphs: XLA may make them part of its CUDA graphs; it then provides their
    temporaries."""

    def __init__(self, function, graphs):
        _register()
        self.function, self.graphs, self.keys = function, graphs, {}
        weakref.finalize(self, _forget, self.keys)

    def __call__(self, entry, given):
        """The entry's outputs for these arrays, both by name."""
        found = self._mapped(entry, (), 0)(*[given[name] for name, _, _, _ in entry.inputs])
        return dict(zip([name for name, _, _, _ in entry.outputs], found))

    def _mapped(self, entry, mapped, calls):
        """A function of arrays in the order of the entry's inputs. calls: for how many slices of the inputs
        that are [mapped] it computes the entry; 0: for the inputs themselves."""
        names = [name for name, _, _, _ in entry.inputs]

        @jax.custom_batching.custom_vmap
        def call(*arrays):
            used, given = self.function.mapped(entry, mapped, calls) if calls else entry, dict(zip(names, arrays))
            return self._ffi(used, [given[name] for name, _, _, _ in used.inputs])

        @call.def_vmap
        def batched(size, among, *arrays):
            if not size:  # no entry has an axis of 0 elements
                of = (0, calls) if calls else (0,)
                found = [jax.numpy.zeros((*of, *shape), _TYPES[dtype]) for _, dtype, shape, _ in entry.outputs]
                return tuple(found), (True,) * len(found)
            # Of a vmap within a vmap, both axes become one.
            both = tuple(name for name, new in zip(names, among) if new or name in mapped)
            n, merged = size * max(calls, 1), []
            for name, new, x in zip(names, among, arrays):
                if name in both:
                    own = x.shape[new + (name in mapped):]
                    x = x.reshape((size if new else 1, calls if name in mapped else 1, *own))
                    x = jax.numpy.broadcast_to(x, (size, max(calls, 1), *own)).reshape((n, *own))
                merged.append(x)
            found = self._mapped(entry, both, n)(*merged)
            if calls:
                found = [y.reshape((size, calls, *y.shape[1:])) for y in found]
            return tuple(found), (True,) * len(found)

        return call

    def _ffi(self, entry, arrays):
        if entry not in self.keys:
            self.keys[entry] = secrets.randbits(62)  # no other process's: compiled code may be kept in files
            _netc.called()[self.keys[entry]] = entry
        results = [jax.ShapeDtypeStruct(shape, _TYPES[dtype]) for _, dtype, shape, _ in entry.outputs]
        if not results:
            return ()
        n = len(results)
        if self.graphs:
            entry.warm_up()  # XLA need not call it once before it captures it
            results.append(jax.ShapeDtypeStruct((entry.temporaries + 256,), "uint8"))
        name = "netc_call_in_graphs" if self.graphs else "netc_call"
        return tuple(jax.ffi.ffi_call(name, results)(*arrays, key=numpy.int64(self.keys[entry]))[:n])


def _forget(keys):
    for key in keys.values():
        _netc.called().pop(key, None)


def _checked(kind, port, x):
    name, dtype, shape = port
    if not hasattr(x, "dtype"):
        x = jax.numpy.asarray(x, _TYPES[dtype])
    if x.dtype != _TYPES[dtype] or x.shape != shape:
        raise Error(f"{kind} '{name}' is {dtype}{list(shape)}, the array given is {x.dtype}{list(x.shape)}")
    return x


class JaxFunction:
    """An entry as a function of JAX arrays; see Model.jax."""

    def __init__(self, model, entry, params, outputs, training, graphs, states):
        self._model, self._with_states = model, states
        self._function = f = Function(model, entry, params, outputs, training, states=states)
        if f.writes:
            raise Error(f"'{f.name}' changes states (the count of its draws of random numbers, too), which a "
                        "function of JAX cannot: with states=True it takes them and gives those that follow")
        wide = [name for name, dtype, _ in f.inputs + f.outputs + f.states + f.kept if dtype in ("i64", "f64")]
        if wide and not jax.config.jax_enable_x64:
            raise Error(f"{', '.join(wide)} of '{f.name}' are of 64 bits, which JAX has only with jax_enable_x64")
        if graphs and f.keeping.checks:
            raise Error(f"'{f.name}' checks indices or asserts, which a CUDA graph could not report: state the range of "
                        "indices where they are declared (i: i32[n] in 0..10), or leave out graphs=True")
        self._calls = _Calls(f, graphs and f.device != "cpu")
        self._names = [name for name, _, _ in f.inputs] + [f"@was.{name}" for name, _, _ in f.reads]
        self._results = [name for name, _, _ in f.outputs] + [f"@now.{name}" for name, _, _ in f.changes]
        self._tuple = collections.namedtuple(f.name, [name for name, _, _ in f.outputs], rename=True)
        self._kept = [name for name, _, _ in f.kept]
        self._call = self._differentiable(self._results, lambda: f.plain)
        self._keep = self._differentiable(self._results + self._kept, lambda: f.keeping)
        self._derived = {}

    def _differentiable(self, results, entry):
        """The entry, compiled when it is called, as a function of arrays that returns [results]. Kept
        values count as constants: second derivatives compute them again."""
        def primal(*arrays):
            found = self._calls(entry(), dict(zip(self._names, arrays)))
            return tuple(found[name] for name in results)

        def forward(*primals):
            arrays = [p.value for p in primals]
            found = self._keep(*arrays)  # which can be differentiated itself
            return found[:len(results)], (_Wanted(p.perturbed for p in primals), arrays, found[len(self._results):])

        call = jax.custom_vjp(primal)
        call.defvjp(forward, self._backward, symbolic_zeros=True)
        return call

    def _backward(self, saved, cotangents):
        f, (wanted, arrays, kept) = self._function, saved
        of = [i for i, ((_, dtype, _), d) in enumerate(zip(f.outputs, cotangents))
              if dtype in _FLOATS and not isinstance(d, SymbolicZero)]
        wanted = tuple(name for (name, dtype, _), w in zip(f.inputs, wanted) if w and dtype in _FLOATS)
        if not of or not wanted:
            return (None,) * len(self._names)
        key = wanted, tuple(f.outputs[i][0] for i in of)
        if key not in self._derived:
            self._derived[key] = self._gradients(*key)
        found = dict(zip(wanted, self._derived[key](*arrays, *kept, *[cotangents[i] for i in of])))
        return tuple(found.get(name) for name in self._names)

    def _gradients(self, wanted, of):
        """A function of arrays, kept values and cotangents of the outputs [of], which can be
        differentiated once more."""
        f, taken = self._function, [*self._names, *self._kept, *[f"@d.{name}" for name in of]]
        floats = {name for name, dtype, _ in f.inputs if dtype in _FLOATS} | {f"@d.{name}" for name in of}

        def primal(*arrays):
            found = self._calls(f.gradients(wanted, of), dict(zip(taken, arrays)))
            return tuple(found[name] for name in wanted)

        def forward(*primals):
            arrays = [p.value for p in primals]
            return derived(*arrays), (_Wanted(p.perturbed for p in primals), arrays)

        def backward(saved, cotangents):
            perturbed, arrays = saved
            back = {name: d for name, d in zip(wanted, cotangents) if not isinstance(d, SymbolicZero)}
            needed = [name for name, w in zip(taken, perturbed) if w and name in floats]
            if not back or not needed:
                return (None,) * len(taken)
            given = {**dict(zip(taken, arrays)), **{f"@dd.{name}": d for name, d in back.items()}}
            found = self._second(f.second(needed, list(back), of), given)
            return tuple(found.get(name) for name in taken)

        derived = jax.custom_vjp(primal)
        derived.defvjp(forward, backward, symbolic_zeros=True)
        return derived

    def _second(self, entry, given):
        def refuse(_):
            raise Error(f"'{self._function.name}' cannot be differentiated three times: take the first gradient in the "
                        "model, by grad(…), which leaves two")
        call = jax.custom_vjp(lambda given: self._calls(entry, given))
        call.defvjp(refuse, refuse)
        return call({name: given[name] for name, _, _, _ in entry.inputs})

    def states(self):
        """The states that it reads or writes, with the model's current values, to start from."""
        def value(name, dtype, shape):
            told = () if name.startswith("@") else (dtype, tuple(shape))  # the model does not list scratch states
            return jax.numpy.asarray(self._model._core._state_get(name, *told), _TYPES[dtype])

        return {name: value(name, dtype, shape) for name, dtype, shape in self._function.states}

    def __call__(self, *args, params=None, **inputs):
        f, states = self._function, {}
        if self._with_states:
            states, args = self._split(args)
        arrays = [_checked("input", port, x) for port, x in zip(f.inputs, f.arrange(args, inputs, params))]
        arrays += [_checked("state", port, states[port[0]]) for port in f.reads]
        results, n = self._call(*arrays), len(f.outputs)
        out = results[0] if n == 1 else self._tuple(*results[:n])
        if not self._with_states:
            return out
        return out, {**states, **dict(zip([name for name, _, _ in f.changes], results[n:]))}

    def _split(self, args):
        """The states, which are the first argument, and the other arguments."""
        f = self._function
        if not args or not isinstance(args[0], dict):
            raise TypeError(f"{f.name}(): its first argument is a dict of states, as f.states() gives")
        missing = [name for name, _, _ in f.reads if name not in args[0]]
        if missing:
            raise TypeError(f"{f.name}(): no state '{missing[0]}' among those given: begin with f.states()")
        return args[0], args[1:]

    def __deepcopy__(self, memo):
        return self  # as Python's own functions are

    def __repr__(self):
        return repr(self._function)
