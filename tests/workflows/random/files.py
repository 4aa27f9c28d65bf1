"""Arrays and checkpoints as files, without other packages."""

import json
import os
import struct

CODES = {"F32": "f", "F64": "d", "F16": "e", "I32": "i", "I64": "q", "U32": "I", "<f4": "f", "<f8": "d", "<f2": "e"}


def save_npy(path, kind, shape, values):
    head = str({"descr": kind, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values.tobytes())


def read_npy(path):
    """The numbers, in one row."""
    data = open(path, "rb").read()
    (n,) = struct.unpack("<H", data[8:10])
    kind = data[10:10 + n].split(b"'descr': '")[1].split(b"'")[0].decode()
    return [v for v, in struct.iter_unpack("<" + CODES[kind], data[10 + n:])]


def read_safetensors(path):
    """The metadata, and (type, shape, bytes) by name."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(n))
        data = f.read()
    meta = head.pop("__metadata__", {})
    return meta, {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items()}


def read_checkpoint(path):
    """Also of several files."""
    if not path.endswith(".json"):
        return read_safetensors(path)
    meta, tensors = {}, {}
    for part in sorted(set(json.load(open(path))["weight_map"].values())):
        said, its = read_safetensors(os.path.join(os.path.dirname(path), part))
        meta.update(said)
        tensors.update(its)
    return meta, tensors


def first_values(tensor):
    dtype, shape, data = tensor
    code = CODES.get(dtype)
    values = [v for v, in struct.iter_unpack("<" + code, data)][:3] if code else data[:8].hex()
    return f"{dtype}{shape} {values}"
