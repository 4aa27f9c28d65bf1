"""CPU time on one core of netc and of JAX by turns in one process, which other work on the machine changes little.

The process must be held to one core before JAX is imported (taskset): threads that wait for each other would count.
$BUILD: where libnetc.so is. Inputs and outputs are bound where they lie, so that a call is netc_run alone.
"""
import ctypes
import os
import time

import jax
import ml_dtypes
import numpy as np

lib = ctypes.CDLL(os.path.join(os.environ.get("BUILD", "build"), "libnetc.so"))
lib.netc_error_text.restype = ctypes.c_char_p
TYPES = [np.bool_, np.uint8, np.int32, np.uint32, np.int64, ml_dtypes.bfloat16, np.float16, np.float32, np.float64]


class Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("dim", ctypes.c_int64 * 8), ("data", ctypes.c_bool)]


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * 8),
                ("data", ctypes.c_void_p), ("on_device", ctypes.c_bool)]


def do(function, *args):
    error = ctypes.c_void_p()
    if getattr(lib, function)(*args, ctypes.byref(error)) != 0:
        raise SystemExit(lib.netc_error_text(error).decode())


class Model:
    """A .net file in a session on the CPU."""

    def __init__(self, path):
        context, program, self.session = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        do("netc_context_create", None, ctypes.byref(context))
        do("netc_compile_file", context, path.encode(), None, ctypes.byref(program))
        do("netc_session_create", program, b"cpu", None, ctypes.byref(self.session))
        self.program = program

    def _bind(self, entry, way, arrays):
        """Binds inputs or outputs; arrays(type, shape, i) gives each."""
        bound, port = [], Port()
        for i in range(getattr(lib, f"netc_{way}_count")(self.program, entry)):
            do(f"netc_{way}_info", self.program, entry, i, ctypes.byref(port), )
            shape = tuple(port.dim[:port.rank])
            a = arrays(TYPES[port.dtype], shape, i)
            if a.dtype != TYPES[port.dtype] or a.shape != shape:
                raise SystemExit(f"{entry}: {port.name} is {TYPES[port.dtype]} {shape}, not {a.dtype} {a.shape}")
            t = Tensor(port.dtype, port.rank, port.dim, a.ctypes.data)
            do("netc_bind" if way == "input" else "netc_bind_output", self.session, entry, port.name, ctypes.byref(t))
            bound.append(a)
        return bound

    def call(self, entry, inputs):
        """A function that runs the entry on the arrays, in the order of its inputs, and gives its outputs."""
        entry = entry.encode()
        ours = self._bind(entry, "input", lambda kind, shape, i: np.array(inputs[i]))
        outputs = self._bind(entry, "output", lambda kind, shape, i: np.zeros(shape, kind))

        def run():
            do("netc_run", self.session, entry, ctypes.c_int64(1))
            return outputs
        run.inputs = ours  # bound: they must stay
        return run


def by_turns(ours, theirs, turns=25):
    """The least microseconds of a call of each. A turn is some 4 ms of calls."""
    def seconds(f, n):
        begin = time.process_time()
        for _ in range(n):
            f()
        return (time.process_time() - begin) / n
    both, least = (ours, theirs), [1e9, 1e9]
    for f in both:
        f()
    calls = [max(1, int(0.004 / max(seconds(f, 2), 1e-6))) for f in both]
    for _ in range(turns):
        least = [min(t, seconds(f, n)) for t, f, n in zip(least, both, calls)]
    return [t * 1e6 for t in least]


def agree(name, got, want):
    """Ends the process where they do not: what is timed must be the same thing."""
    for a, b in zip(got, want, strict=True):
        a, b = a.astype("f8"), np.asarray(b).astype("f8")
        far = np.max(np.abs(a - b)) / np.max(np.abs(b), initial=1)
        if not far < (2e-2 if got[0].dtype.itemsize == 2 else 1e-4):
            raise SystemExit(f"{name}: netc and JAX differ by {far:.2g} of the largest value")
