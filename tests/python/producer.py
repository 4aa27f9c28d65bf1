"""Tensors exported by DLPack as other libraries do, of both ABIs, whatever NumPy there is."""

import ctypes

import numpy as np

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class Plain(ctypes.Structure):
    _fields_ = [("tensor", DlTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", DlTensor)]


class Producer:
    """An array's memory, or that at [at], as a tensor on [device]."""

    def __init__(self, a, versioned=True, device=(1, 0), at=None, offset=0, flags=None, major=1):
        self.a, self.versioned, self.device, self.major = a, versioned, device, major
        self.at, self.offset = a.ctypes.data if at is None else at, offset
        self.flags = 0 if flags is None and a.flags.writeable else 1 if flags is None else flags
        self.asked, self.alive = [], 0
        self.ended = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._end)

    def _end(self, capsule):
        self.alive -= 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if not self.versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword argument 'max_version'")
        a = self.a
        n = max(a.ndim, 1)
        self.shape, self.strides = (ctypes.c_int64 * n)(*a.shape), (ctypes.c_int64 * n)(*(s // a.itemsize for s in a.strides))
        self.managed = Versioned(flags=self.flags) if self.versioned else Plain()
        if self.versioned:
            self.managed.version[0] = self.major
        t = self.managed.tensor
        t.data, t.byte_offset, t.ndim = self.at, self.offset, a.ndim
        t.code, t.bits, t.lanes = CODES[a.dtype.kind], a.itemsize * 8, 1
        t.device[0], t.device[1] = self.device
        t.shape, t.strides = ctypes.addressof(self.shape), ctypes.addressof(self.strides)
        self.alive += 1
        return api.PyCapsule_New(ctypes.addressof(self.managed), b"dltensor_versioned" if self.versioned else b"dltensor",
                                 ctypes.cast(self.ended, ctypes.c_void_p))
