"""Tensors in a GPU's memory, in and out, on the host's shim of one (tests/shim)."""

import contextlib
import ctypes
import os

import netc
import numpy as np
from harness import check, raises, run, same
from nets import ADD, CLOUDS, STATEFUL
from netc._function import Function
from producer import DlTensor, Producer, api
from xla_frame import Caller

cuda = ctypes.CDLL("libcuda.so.1")
m = netc.compile(ADD, name="add.net", device="cuda:0")
context = ctypes.c_void_p()  # that netc uses, too: this thread's, for what is allocated here
same(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
same(cuda.cuCtxSetCurrent(context), 0)
X = np.arange(4, dtype=np.float32)


class OnDevice(Producer):
    """A dense f32 tensor of the device's, as torch would export it."""

    def __init__(self, values, offset=0, flags=0):
        values = np.ascontiguousarray(values, np.float32)
        self.n, memory = values.nbytes, ctypes.c_uint64()
        same(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(self.n + offset)), 0)
        same(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(memory.value + offset), values.ctypes.data_as(ctypes.c_void_p),
                                  ctypes.c_size_t(self.n)), 0)
        super().__init__(values, device=(2, 0), at=memory.value, offset=offset, flags=flags)

    @property
    def streams(self):
        return [k["stream"] for k in self.asked]

    def set(self, values):
        same(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(self.at + self.offset), values.ctypes.data_as(ctypes.c_void_p),
                                  ctypes.c_size_t(self.n)), 0)

    def values(self):
        out = np.empty(self.n // 4, np.float32)
        same(cuda.cuMemcpyDtoH_v2(out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(self.at + self.offset),
                                  ctypes.c_size_t(self.n)), 0)
        return out.tolist()


class Exchanged(OnDevice):
    """The same by DLPack's C functions, which torch has: no __dlpack__ is called."""

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
    def view(self, out):
        a = self.a
        self.shape = (ctypes.c_int64 * max(a.ndim, 1))(*a.shape)
        out[0] = DlTensor(data=self.at, device=self.device, ndim=a.ndim, code=2, bits=32, lanes=1,
                        shape=ctypes.addressof(self.shape), byte_offset=self.offset)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def work_stream(kind, number, out):
        Exchanged.asked_for.append((kind, number))
        out[0] = Exchanged.stream
        return 0

    stream, asked_for = ctypes.c_void_p(), []
    table = (ctypes.c_uint64 * 7)(1, 0, 0, 0, 0, ctypes.cast(view, ctypes.c_void_p).value,
                                  ctypes.cast(work_stream, ctypes.c_void_p).value)
    __dlpack_c_exchange_api__ = api.PyCapsule_New(ctypes.addressof(table), b"dlpack_exchange_api", None)

    def __dlpack__(self, **keywords):
        raise AssertionError("__dlpack__ was called")


def test_exchange():
    same(cuda.cuStreamCreate(ctypes.byref(Exchanged.stream), 1), 0)
    x, z = Exchanged(X), Exchanged(np.zeros(4))
    check(m(x=x, y=x, out={"z": z})["z"] is z)
    same(z.values(), [0, 2, 4, 6])
    same(Exchanged.asked_for, [(2, 0)] * 3)
    same(m(x=x, y=OnDevice(X))["z"].tolist(), [0, 2, 4, 6])
    with raises(netc.Error, "'x' is f32[4]", "f32[3]"):
        m(x=Exchanged(X[:3]), y=X)
    with raises(netc.Error, "is on cuda:0", "runs on cpu"):
        netc.compile(ADD, device="cpu")(x=x, y=X)


def test_enqueued():
    """What can neither fail nor touch a state is left to the GPU, in the order of the library's stream."""
    f = netc.compile("model f(x: f32[4], y: f32[4]) { return z = x * y, s = x - y }", device="cuda:0").entry()
    x, y, z, s = Exchanged(X), Exchanged(X + 1), Exchanged(np.zeros(4)), Exchanged(np.zeros(4))
    for k in range(4):  # captured as a graph meanwhile
        f(x=x, y=y, out={"z": z, "s": s})
        f(x=z, y=s, out={"z": z, "s": s})
        same(cuda.cuStreamSynchronize(Exchanged.stream), 0)
        same(z.values(), (-X * (X + 1)).tolist())
        same(s.values(), (X * (X + 1) + 1).tolist())
    check((f(x=x, y=y, out={"z": z})["s"] == -1).all() and z.values() == (X * (X + 1)).tolist())
    with raises(netc.Error, "output 'z' is f32[4]", "f32[3]"):
        f(x=x, y=y, out={"z": Exchanged(X[:3]), "s": s})
    lost = Exchanged(X)
    same(cuda.cuMemFree_v2(ctypes.c_uint64(lost.at)), 0)
    with raises(netc.Error, "not a pointer of cuda:0"):
        f(x=x, y=lost, out={"z": z, "s": s})
    # Places that come and go, of an entry of many launches, too; what runs later leaves them alone.
    text = "model many(x: f32[4]) {\n v = x\n for i in 0..12 { v = cumsum(v, 0) - x }\n return y = v, s = sum(v)\n}"
    many, host = netc.compile(text, device="cuda:0"), netc.compile(text, device="cpu")
    for k in range(8):
        x, y = Exchanged(X / 8 + k % 3), Exchanged(np.zeros(4))
        got, want = many(x=x, out={"y": y} if k != 5 else {}), host(x=X / 8 + k % 3)
        check(np.allclose(y.values() if k != 5 else got["y"], want["y"]) and np.allclose(got["s"], want["s"]), k)
        if k == 6:
            same(cuda.cuMemFree_v2(ctypes.c_uint64(y.at)), 0)
            check(len(many.profile(repeats=1, steps=1)) > 8)
    check(not netc.compile("model g(i: i32[1], x: f32[4]) { return y = x[i] }", device="cpu").entry().writes)


@contextlib.contextmanager
def captured(launch):
    """What the block gives the stream becomes a graph, which launch[0]() launches."""
    graph, made = ctypes.c_void_p(), ctypes.c_void_p()
    same(cuda.cuStreamBeginCapture_v2(Exchanged.stream, 0), 0)
    yield
    same(cuda.cuStreamEndCapture(Exchanged.stream, ctypes.byref(graph)), 0)
    same(cuda.cuGraphInstantiateWithFlags(ctypes.byref(made), graph, ctypes.c_ulonglong(0)), 0)
    launch[:] = [lambda: same(cuda.cuGraphLaunch(made, Exchanged.stream), 0)]


def test_captured():
    """A function and its gradients in one graph of the caller's, launched with other values of the same tensors."""
    model, r, launch = netc.compile(CLOUDS, device="cuda:0"), np.random.default_rng(1), []
    f = Function(model, None, "fc*", ["logits"], False)
    d = f.gradients(["x", "fc1.weight", "fc2.bias"], ["logits"])
    check(not f.keeping.checks and not d.checks)

    def tensors():
        """Inputs, a cotangent, and places for what both give."""
        values = model.state_dict()
        given = {n: Exchanged(values.get(n, np.zeros(s))) for n, _, s in f.inputs}
        given["@d.logits"] = Exchanged(np.zeros((32, 2)))
        return (given, *({n: Exchanged(np.zeros(s)) for n, _, s, _ in e.outputs} for e in (f.keeping, d)))

    def both(given, gives, gradients):
        f.keeping(*(given[n] for n, _, _ in f.inputs), out=gives)
        d(*({**given, **gives}[n] for n, _, _, _ in d.inputs), out=gradients)

    mine, other = tensors(), tensors()
    with captured(launch), raises(netc.Error, "'side' has not run yet", "run it once"):
        both(*mine)
    both(*mine)
    with captured(launch):
        both(*mine)
        with raises(netc.Error, "input 'x' of 'side' lies in the host's memory"):
            f.keeping(np.zeros((32, 2), "f4"), *(mine[0][n] for n, _, _ in f.inputs[1:]), out=mine[1])
        with raises(netc.Error, "output 'logits' of 'side' has no place"):
            f.keeping(*(mine[0][n] for n, _, _ in f.inputs))
    for k in range(3):
        for name in ("x", "@d.logits", "fc2.weight"):
            values = r.normal(size=mine[0][name].a.shape).astype("f4")
            mine[0][name].set(values), other[0][name].set(values)
        launch[0]()
        both(*other)
        for part in (1, 2):
            same([t.values() for t in mine[part].values()], [t.values() for t in other[part].values()])
        check(any(mine[2]["x"].values()))
    looks = netc.compile("model looks(i: i32[1], x: f32[4]) { return y = x[i] }", device="cuda:0").entry()
    check(looks.checks)


def test_xla():
    """Calls by XLA's FFI; those that it captures, each with temporaries of its own."""
    _, plain, graphs = netc._netc.ffi_handlers()
    xla, model, launches = Caller(lambda: Exchanged.stream.value), netc.compile(CLOUDS, device="cuda:0"), []
    same([xla.traits(h) for h in (plain, graphs)], [0, 1])
    f = Function(model, None, "fc*", ["logits"], False)
    entry, values, r = f.keeping, model.state_dict(), np.random.default_rng(1)
    netc._netc.called()[7] = entry
    entry.warm_up()
    check(entry.temporaries > 0)

    def tensors():
        return ({n: Exchanged(values.get(n, np.zeros(s))) for n, _, s in f.inputs},
                {n: Exchanged(np.zeros(s)) for n, _, s, _ in entry.outputs})

    def call(handler, given, gives, scratch=()):
        return xla.call(handler, 7, [(t, s, given[n].at) for n, t, s in f.inputs],
                        [*((t, s, gives[n].at) for n, t, s, _ in entry.outputs), *scratch])
    calls, other = [tensors() for _ in range(2)], tensors()
    for given, gives in calls:
        bytes = entry.temporaries + 256
        temporaries, launch = Exchanged(np.zeros(bytes // 4)), []
        check(call(graphs, given, gives, [("u8", (bytes,), temporaries.at)]), xla.errors)  # not captured
        with captured(launch):
            check(call(graphs, given, gives, [("u8", (bytes - 128,), temporaries.at + 128)]), xla.errors)
        launches.append((launch[0], temporaries))
    for k in range(6):
        (launch, temporaries), (given, gives), = launches[k % 2], calls[k % 2]
        x = r.normal(size=(32, 2)).astype("f4")
        given["x"].set(x), other[0]["x"].set(x)
        launch()
        check(call(plain, *other), xla.errors)
        same([t.values() for t in gives.values()], [t.values() for t in other[1].values()])
        check(any(temporaries.values()) and any(gives["logits"].values()))
    check(not call(graphs, *other) and "another number of inputs or outputs" in xla.errors[-1], xla.errors)
    check(not call(graphs, *other, [("u8", (64,), temporaries.at)]) and "temporaries of 'side' take" in xla.errors[-1], xla.errors)
    del netc._netc.called()[7]


def test_captured_states():
    """Draws and states go on from launch to launch, and with calls outside the graph."""
    models, launch, y = [netc.compile(STATEFUL, device="cuda:0", seed=3) for _ in range(2)], [], Exchanged(np.zeros((64, 8)))
    f, plain = (Function(model, None, (), (), True).plain for model in models)
    x, n = Exchanged(np.ones((64, 8))), 0
    for how in "run capture launch launch run launch state launch".split():
        if how == "capture":
            with captured(launch):
                f(x, out={"y": y})
            continue
        if how == "state":
            for model in models:
                model.state["calls"] = 100
            continue
        launch[0]() if how == "launch" else f(x, out={"y": y})
        same(y.values(), plain(np.ones((64, 8), "f4"))["y"].ravel().tolist())
        same(float(models[0].state["calls"]), float(models[1].state["calls"]))


def test_in_and_out():
    same(m.device.split()[0], "cuda:0")
    same(m(x=X, y=X)["z"].tolist(), [0, 2, 4, 6])  # from the host
    x, z = OnDevice(X), OnDevice(np.zeros(4))
    same(m(x=x, y=X)["z"].tolist(), [0, 2, 4, 6])
    same(x.streams, [1])  # ready on the default stream, which ours waits for
    out = m(x=x, y=x, out={"z": z})
    check(out["z"] is z and float(out["s"]) == 6)
    same(z.values(), [0, 2, 4, 6])
    same(z.streams, [1])
    host = np.zeros(4, np.float32)
    check(m(x=x, y=X, out={"z": host})["z"] is host and host.tolist() == [0, 2, 4, 6])
    same(m(x=OnDevice(X, offset=16), y=X)["z"].tolist(), [0, 2, 4, 6])


def test_wrong():
    with raises(netc.Error, "aligned to 16 bytes"):
        m(x=OnDevice(X, offset=4), y=X)
    with raises(netc.Error, "'x' is f32[4]", "f32[3]"):
        m(x=OnDevice(X[:3]), y=X)
    with raises(netc.Error, "output 'z' is f32[4]", "f32[3]"):
        m(x=X, y=X, out={"z": OnDevice(X[:3])})
    with raises(netc.Error, "aligned to 16 bytes"):
        m(x=X, y=X, out={"z": OnDevice(X, offset=4)})
    with raises(netc.Error, "cannot be written"):
        m(x=X, y=X, out={"z": OnDevice(X, flags=1)})
    lost = OnDevice(X)
    same(cuda.cuMemFree_v2(ctypes.c_uint64(lost.at)), 0)
    with raises(netc.Error, "not a pointer of cuda:0"):
        m(x=lost, y=X)  # freed while bound
    with raises(netc.Error, "not a pointer of cuda:0"):
        m(x=X, y=X, out={"z": lost})
    with raises(netc.Error, "is on cuda:0", "runs on cpu"):
        netc.compile(ADD, device="cpu")(x=OnDevice(X), y=X)
    with raises(netc.Error, "state 'w' is on cuda:0", "host's memory"):
        m.state["w"] = OnDevice(X)
    with raises(netc.Error, "the data for 'x' is on cuda:0", "host's memory"):
        m.evaluate({"x": OnDevice(X)})
    same(m(x=X, y=X)["z"].tolist(), [0, 2, 4, 6])


def test_gradients():
    """Functions and their gradients, of parameters that lie on the device, as on the CPU."""
    models = [netc.compile(CLOUDS, device=d) for d in ("cpu", "cuda:0")]
    values = models[0].state_dict()
    r = np.random.default_rng(1)
    x, cotangent = r.normal(size=(32, 2)).astype("f4"), r.normal(size=(32, 2)).astype("f4")
    results = []
    for model, place in zip(models, (np.asarray, OnDevice)):
        f = Function(model, None, "fc*", ["logits"], False)
        d = f.gradients(["x", "fc1.weight", "fc2.bias"], ["logits"])
        given = {"x": place(x), "@d.logits": place(cotangent), **{n: place(values[n]) for n, _, _ in f.inputs[f.own:]}}
        given.update(f.keeping(*(given[n] for n, _, _ in f.inputs)))
        results.append([f.plain(*(given[n] for n, _, _ in f.inputs))["logits"], given["logits"],
                        *d(*(given[p[0]] for p in d.inputs)).values()])
    same([a.shape for a in results[0]], [(32, 2), (32, 2), (32, 2), (8, 2), (2,)])
    check(all(np.allclose(a, b, atol=1e-5) for a, b in zip(*results)), results)


def test_fork():
    child = os.fork()
    if not child:
        try:
            m(x=X, y=X)
        except netc.Error as e:
            del globals()["m"]  # and it is dropped without harm
            os._exit(0 if "before this process was forked" in str(e) else 1)
        os._exit(2)
    same(os.waitpid(child, 0)[1], 0)
    same(m(x=X, y=X)["z"].tolist(), [0, 2, 4, 6])


run(globals())
