"""Arrays for when there is no NumPy or it lacks the type, and conversion of lists to arrays."""

import struct
import sys

from . import _netc

_LETTER = {"bool": "?", "u8": "B", "i32": "i", "u32": "I", "i64": "q", "f16": "e", "f32": "f", "f64": "d"}
_NUMPY = {"bool": "bool", "u8": "uint8", "i32": "int32", "u32": "uint32", "i64": "int64",
          "f16": "float16", "f32": "float32", "f64": "float64"}


def _count(shape):
    n = 1
    for k in shape:
        n *= k
    return n


def _nested(flat, shape):
    if not shape:
        return flat[0]
    step = _count(shape[1:])
    return [_nested(flat[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


class Array(_netc.Array):
    """An output in host memory: dense, row-major, exported by DLPack and by the buffer protocol.

    numpy.asarray(a), torch.from_dlpack(a) and memoryview(a) share its memory.
    """

    __slots__ = ()

    def __new__(cls, *args, **keywords):
        raise TypeError("arrays are made by models")

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return _count(self.shape)

    def _flat(self):
        data, n = self.tobytes(), self.size
        if self.dtype != "bf16":
            return list(struct.unpack(f"={n}{_LETTER[self.dtype]}", data))
        bits = struct.unpack(f"={n}H", data)
        return list(struct.unpack(f"={n}f", struct.pack(f"={n}I", *(b << 16 for b in bits))))

    def tolist(self):
        """The elements as nested lists of numbers; a number if the array has no axes."""
        return _nested(self._flat(), self.shape) if self.size or not self.shape else []

    def item(self):
        if self.size != 1:
            raise ValueError(f"an array of {self.size} elements is not a number")
        return self._flat()[0]

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __len__(self):
        if not self.shape:
            raise TypeError("an array of no axes has no length")
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        import numpy
        if self.dtype == "bf16":  # which NumPy does not have: as float32
            made = numpy.array(self._flat(), numpy.float32).reshape(self.shape)
        else:
            made = numpy.frombuffer(memoryview(self).cast("B"), _NUMPY[self.dtype]).reshape(self.shape)
        return made if dtype is None else made.astype(dtype)

    def __reduce__(self):
        return _remade, (self.dtype, self.shape, self.tobytes())

    def __repr__(self):
        text = str(self.tolist()) if self.size <= 64 else "..."
        return f"netc.Array({self.dtype}{list(self.shape)}, {text})"


def _remade(dtype, shape, data):
    return _netc.make(Array, dtype, shape, data)


def numpy_empty():
    """numpy.empty, or None without NumPy."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy.empty


def _plain(value):
    """Lists of numbers, from lists that may also contain arrays."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _shape_of(value):
    return (len(value),) + (_shape_of(value[0]) if value else ()) if isinstance(value, list) else ()


def _flatten(value, shape, out):
    if not shape:
        if isinstance(value, list):
            raise ValueError("its lists have different lengths")
        out.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise ValueError("its lists have different lengths")
    for v in value:
        _flatten(v, shape[1:], out)


def convert(value, what, dtype, rank):
    """An array of [dtype] from a number, from lists of numbers, or from an array without a buffer; if
    dtype is "", only from such an array, and otherwise the value itself."""
    from ._error import Error
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind = getattr(value, "dtype", None)
        if kind is not None and getattr(kind, "name", "") == "bfloat16":
            bits = numpy.ascontiguousarray(value).view(numpy.uint16)
            return _netc.make(Array, "bf16", bits.shape, bits.tobytes())
        if dtype and isinstance(value, numpy.generic):
            value = value.item()  # a number
        elif hasattr(value, "__array__") and dtype:
            return numpy.asarray(value)
    if not dtype:
        return value
    if not isinstance(value, (bool, int, float, list, tuple)):
        raise Error(f"{what} must be an array, a number or lists of numbers; "
                    f"what was given is a {type(value).__name__}")
    value = _plain(value)
    shape, flat = _shape_of(value), []
    try:
        _flatten(value, shape, flat)
        return _made(flat, shape, dtype)
    except (ValueError, TypeError, struct.error, OverflowError) as e:
        raise Error(f"{what} must be {dtype} of {rank} axes; the given lists cannot be converted: {e}") from None


def _made(flat, shape, dtype):
    n = len(flat)
    if dtype == "bf16":
        words = struct.unpack(f"={n}I", struct.pack(f"={n}f", *flat))
        rounded = [(w + 0x7FFF + (w >> 16 & 1)) >> 16 & 0xFFFF for w in words]
        for v, bits in zip(flat, rounded):
            if bits & 0x7FFF == 0x7F80 and abs(v) != float("inf"):
                raise ValueError(f"{v} is too large for bf16")
        return _netc.make(Array, dtype, shape, struct.pack(f"={n}H", *rounded))
    if dtype not in ("f16", "f32", "f64", "bool"):
        flat = [v if isinstance(v, int) else _whole(v) for v in flat]
    return _netc.make(Array, dtype, shape, struct.pack(f"={n}{_LETTER[dtype]}", *flat))


def _whole(v):
    if v != int(v):
        raise ValueError(f"{v} is not a whole number")
    return int(v)
