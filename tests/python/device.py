"""Tensors in a GPU's memory, in and out, on the host's shim of one (tests/shim)."""

import ctypes
import os

import netc
import numpy as np
from harness import check, raises, run, same
from nets import ADD
from producer import Producer

cuda = ctypes.CDLL("libcuda.so.1")
m = netc.compile(ADD, name="add.net", device="cuda:0")
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

    def values(self):
        out = np.empty(self.n // 4, np.float32)
        same(cuda.cuMemcpyDtoH_v2(out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(self.at + self.offset),
                                  ctypes.c_size_t(self.n)), 0)
        return out.tolist()


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
    with raises(netc.Error, "no pointer of cuda:0"):
        m(x=lost, y=X)  # freed while bound
    with raises(netc.Error, "no pointer of cuda:0"):
        m(x=X, y=X, out={"z": lost})
    with raises(netc.Error, "lies on cuda:0", "runs on cpu"):
        netc.compile(ADD, device="cpu")(x=OnDevice(X), y=X)
    with raises(netc.Error, "state 'w' lies on cuda:0", "host's memory"):
        m.state["w"] = OnDevice(X)
    with raises(netc.Error, "the data for 'x' lies on cuda:0", "host's memory"):
        m.evaluate({"x": OnDevice(X)})
    same(m(x=X, y=X)["z"].tolist(), [0, 2, 4, 6])


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
