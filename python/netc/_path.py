"""Paths as the extension takes them."""

import os

from ._error import Error


def encoded(path):
    """The bytes of a path: of a str (with surrogateescape, as os.listdir gives names that are not
    UTF-8), bytes or an os.PathLike; None stays None."""
    return None if path is None else os.fsencode(path)


def try_to_write(path):
    """Raises an error if a file cannot be created there, before the work whose result it is to hold."""
    if not path:
        raise Error("the name of a file is empty: name one")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.exists(path) and not os.access(folder, os.W_OK | os.X_OK):
        raise Error(f"cannot write {path}: {'no writing in' if os.path.isdir(folder) else 'there is no'} {folder}")
