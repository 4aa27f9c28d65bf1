"""What the goldens of published layouts share (gpt2, llama, bert): files, AdamW as the tests train, layers."""
import json
import os
import struct

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
NAMES = {"float32": "F32", "int32": "I32", "bool": "BOOL", "bfloat16": "BF16", "float16": "F16"}


def write(path, tensors, meta=None):
    """Floats of 64 bits as those of 32, others as they are."""
    entries, blob = {"__metadata__": meta} if meta else {}, b""
    for k, v in tensors.items():
        v = np.asarray(v, order="C")
        v = v.astype(np.float32) if v.dtype == np.float64 else v
        raw = v.tobytes()
        entries[k] = {"dtype": NAMES[str(v.dtype)], "shape": list(v.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    open(path, "wb").write(struct.pack("<Q", len(header)) + header + blob)


def write_parts(folder, first, second):
    """Two files and their index."""
    parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    write(os.path.join(folder, parts[0]), first, {"format": "pt"})
    write(os.path.join(folder, parts[1]), second, {"format": "pt"})
    index = {"metadata": {"total_size": 0}, "weight_map": {k: parts[k in second] for k in [*first, *second]}}
    json.dump(index, open(os.path.join(folder, "model.safetensors.index.json"), "w"), indent=1)


def layer_norm(x, w, name, eps):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + eps) * w[name + ".weight"] + w[name + ".bias"]


def attention(q, k, v, seen):
    """(B, n, heads, d), seen (B or 1, 1, n, n) -> (B, n, heads d)"""
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    a = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(seen, s, -jnp.inf), -1), v)
    return a.reshape(*a.shape[:2], -1)


def causal(n):
    return np.tril(np.ones((1, 1, n, n), bool))


def next_token_loss(logits_of, w, tokens):
    z = jax.nn.log_softmax(logits_of(w, tokens[:, :-1]), -1)
    return -jnp.take_along_axis(z, tokens[:, 1:, None], -1).mean()


def adamw(loss_of, w, batches):
    """As the tests: clipped to a norm of 1, decay 0.1 of what has two axes, beta2 0.95; lr 0.01."""
    m, v = ({k: 0 * x for k, x in w.items()} for _ in range(2))
    losses = []
    for t, batch in enumerate(batches, 1):
        loss, g = jax.value_and_grad(loss_of)(w, batch)
        scale = jnp.minimum(1, 1 / (jnp.sqrt(sum((x**2).sum() for x in g.values())) + 1e-6))
        losses.append(loss)
        for k in w:
            d = g[k] * scale
            m[k], v[k] = 0.9 * m[k] + 0.1 * d, 0.95 * v[k] + 0.05 * d * d
            step = m[k] / (1 - 0.9**t) / (jnp.sqrt(v[k] / (1 - 0.95**t)) + 1e-8)
            w = {**w, k: w[k] - 0.01 * (step + (0.1 * w[k] if w[k].ndim == 2 else 0))}
    return w, losses


def continued(logits_of, w, text, length):
    """The most likely tokens, and by how much they are so."""
    text, gaps = [int(t) for t in text], []
    while len(text) < length:
        z = np.asarray(logits_of(w, np.array([text], np.int32))[0, -1])
        gaps.append(np.sort(z)[-1] - np.sort(z)[-2])
        text.append(int(np.argmax(z)))
    return text, gaps
