"""Calls through XLA's FFI as XLA makes them, with buffers on the shim's device, without XLA."""

import ctypes

from ctypes import POINTER, Structure, addressof, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p

TYPES = {"f32": 11, "u8": 6, "i32": 4}
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]


def sized(*fields):
    """A struct that begins as all of XLA's do."""
    return type("Sized", (Structure,), {"_fields_": [("size", c_size_t), ("extension", c_void_p), *fields]})


Version = sized(("major", c_int), ("minor", c_int))
Metadata = type("Metadata", (Structure,), {"_fields_": [("size", c_size_t), ("version", Version), ("traits", c_uint32)]})
MetadataExtension = type("MetadataExtension", (Structure,), {"_fields_": [
    ("size", c_size_t), ("type", c_int), ("next", c_void_p), ("metadata", POINTER(Metadata))]})
ErrorArgs = sized(("message", c_char_p), ("code", c_int))
StreamArgs = sized(("context", c_void_p), ("stream", c_void_p))
Buffer = sized(("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", c_void_p))
Scalar = type("Scalar", (Structure,), {"_fields_": [("dtype", c_int), ("value", c_void_p)]})
Span = type("Span", (Structure,), {"_fields_": [("at", c_char_p), ("n", c_size_t)]})
List = sized(("n", c_int64), ("types", c_void_p), ("at", c_void_p))
Attrs = sized(("n", c_int64), ("types", c_void_p), ("names", c_void_p), ("at", c_void_p))
OnError = ctypes.CFUNCTYPE(c_void_p, POINTER(ErrorArgs))
OnStream = ctypes.CFUNCTYPE(c_void_p, POINTER(StreamArgs))
Api = sized(("version", Version), ("internal", c_void_p), ("error_create", OnError), ("unused", c_void_p * 3), ("stream_get", OnStream))
Frame = sized(("api", POINTER(Api)), ("context", c_void_p), ("stage", c_int), ("args", List), ("results", List), ("attrs", Attrs))


class Caller:
    """stream(): XLA's of the moment. errors: what handlers said was wrong."""

    def __init__(self, stream):
        self.errors = []

        @OnError
        def error(args):
            self.errors.append(args[0].message.decode())
            return 1

        @OnStream
        def get(args):
            args[0].stream = stream()
            return None
        self.kept = error, get
        self.api = Api(version=Version(major=0, minor=1), error_create=error, stream_get=get)

    @staticmethod
    def handler(capsule):
        return ctypes.CFUNCTYPE(c_void_p, POINTER(Frame))(api.PyCapsule_GetPointer(capsule, None))

    def traits(self, capsule):
        m = Metadata()
        x = MetadataExtension(type=1, metadata=ctypes.pointer(m))
        self.handler(capsule)(Frame(extension=addressof(x), api=ctypes.pointer(self.api)))
        return m.traits

    def call(self, capsule, key, args, results):
        """args, results: (type, shape, address) each. True: no error."""
        def array(kind, values):
            values = (kind * max(len(values), 1))(*values)
            hold.append(values)
            return addressof(values)

        def buffers(of):
            made = [Buffer(dtype=TYPES[t], data=at, rank=len(shape), dims=array(c_int64, shape)) for t, shape, at in of]
            hold.append(made)
            return List(n=len(made), types=array(c_int, [1] * len(made)), at=array(c_void_p, [addressof(b) for b in made]))
        hold, number = [], c_int64(key)
        scalar, name = Scalar(dtype=5, value=addressof(number)), Span(at=b"key", n=3)
        attrs = Attrs(n=1, types=array(c_int, [3]), names=array(c_void_p, [addressof(name)]), at=array(c_void_p, [addressof(scalar)]))
        f = Frame(api=ctypes.pointer(self.api), stage=3, args=buffers(args), results=buffers(results), attrs=attrs)
        return not self.handler(capsule)(f)
