"""netc: a compiler for neural networks, from Python.

    import netc
    m = netc.compile("mlp.net", device="auto")
    m.train({"image": images, "label": labels}, epochs=5)
    print(m.evaluate({"image": test_images, "label": test_labels}))
    out = m(image=batch, label=batch_labels)      # a dict of arrays

Needs only the standard library. Arrays of NumPy, torch, jax, cupy and anything else that supports
the buffer protocol or DLPack are read in place.
"""

import os as _os

from ._array import Array
from ._error import Error
from ._generate import Tokenizer
from ._images import Images
from ._model import Event, Model, compile, doctor
from ._netc import Entry, forked as _forked, version as _version
from ._table import Table

__version__ = _version()
_os.register_at_fork(after_in_child=_forked)
__all__ = ["Array", "Entry", "Error", "Event", "Images", "Model", "Table", "Tokenizer", "compile", "doctor"]

for _public in (Array, Error, Event, Images, Model, Table, Tokenizer, compile, doctor):
    _public.__module__ = "netc"  # as it is named from outside, in tracebacks too
del _public
