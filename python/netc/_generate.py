"""Text: tokenizers, and what a model writes after a prompt."""

import array
import operator
import os

from . import _netc
from ._error import Error


class Tokenizer:
    """Byte-level byte-pair encoding, equal to the reference of each kind of file: a tokenizer.json,
    a vocab.json or merges.txt with the other beside it, ranks in base64 (with pattern= "gpt2",
    "cl100k", "llama3" or "o200k", unless the file's name tells), a folder of one; or "bytes"."""

    def __init__(self, path, pattern=None):
        from ._model import _register
        _register()
        self._core = _netc.tokenizer_open(os.fspath(path), pattern)

    def encode(self, text, *, plain=False):
        """Its tokens, as a list of numbers. plain: texts of special tokens are text like any other."""
        text = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(memoryview(text))
        return _netc.tokenizer_encode(self._core, text, plain)

    def to_bytes(self, tokens):
        """The bytes of tokens, one behind the other."""
        tokens = [operator.index(t) for t in tokens]
        texts = [_netc.tokenizer_text(self._core, t) for t in tokens]
        if None in texts:
            raise Error(f"there is no token {tokens[texts.index(None)]}: there are {len(self)}")
        return b"".join(texts)

    def decode(self, tokens):
        """Their text. Bytes that are no UTF-8 come back as encode() takes them (surrogateescape)."""
        return self.to_bytes(tokens).decode("utf-8", "surrogateescape")

    def __len__(self):
        return _netc.tokenizer_count(self._core)


def generate(model, prompt, *, tokenizer, on_token, entry, length, temperature, top_k, top_p, seed, prefill,
             repetition_penalty):
    if isinstance(tokenizer, (str, os.PathLike)):
        tokenizer = Tokenizer(tokenizer)
    one = isinstance(prompt, str) or all(hasattr(t, "__index__") for t in prompt)
    prompts = [prompt] if one else list(prompt)
    words = [isinstance(p, str) for p in prompts]
    if any(words) and tokenizer is None:
        raise ValueError('prompts of text want tokenizer=: a Tokenizer, its path, or "bytes"')
    tokens = [tokenizer.encode(p) if text else list(p) for p, text in zip(prompts, words)]
    if not all(tokens):
        raise ValueError("a prompt needs at least one token")
    written = {}

    def told(row, token):
        written.setdefault(row, []).append(token)
        return None if on_token is None else on_token(row, token)
    model._core._generate([array.array("i", t).tobytes() for t in tokens], told, entry=entry, length=length,
                          temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, prefill=prefill,
                          repetition_penalty=repetition_penalty)
    rows = max(len(prompts), max(written, default=0) + 1)
    texts = [written.get(row, []) for row in range(rows)]
    return [tokenizer.decode(t) for t in texts] if any(words) else texts
