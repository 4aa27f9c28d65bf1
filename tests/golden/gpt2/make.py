"""A tiny GPT-2 in the published checkpoint's layout, and what it computes: tests/unit/lib_gpt2.c compares.

    pip install jax && python tests/golden/gpt2/make.py          (JAX 0.10 made what is in the repository)

Written from the published model's description (pre-norm blocks, Conv1D weights [in, out], tanh GELU, tied head), in
double precision. The weights come in two files and an index, with the buffers that the published file has.
"""
import json
import os
import struct

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, WIDTH, HEADS, VOCAB, CONTEXT, T, STEPS = 2, 16, 2, 41, 12, 8, 20
NAMES = {"float32": "F32", "int32": "I32"}


def write(name, tensors, meta=None):
    entries, blob = {"__metadata__": meta} if meta else {}, b""
    for k, v in tensors.items():
        v = np.asarray(v, order="C")
        v = v.astype(np.float32) if v.dtype.kind == "f" else v
        raw = v.tobytes()
        entries[k] = {"dtype": NAMES[str(v.dtype)], "shape": list(v.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    open(os.path.join(HERE, name), "wb").write(struct.pack("<Q", len(header)) + header + blob)


def weights(rng):
    w = {"wte.weight": rng.normal(0, 0.5, (VOCAB, WIDTH)), "wpe.weight": rng.normal(0, 0.3, (CONTEXT, WIDTH))}
    for i in range(LAYERS):
        for name, n in (("ln_1", WIDTH), ("ln_2", WIDTH)):
            w[f"h.{i}.{name}.weight"], w[f"h.{i}.{name}.bias"] = rng.normal(1, 0.2, n), rng.normal(0, 0.2, n)
        for name, a, b in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH), ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            w[f"h.{i}.{name}.weight"], w[f"h.{i}.{name}.bias"] = rng.normal(0, 0.3, (a, b)), rng.normal(0, 0.2, b)
    w["ln_f.weight"], w["ln_f.bias"] = rng.normal(1, 0.2, WIDTH), rng.normal(0, 0.2, WIDTH)
    return {k: v.astype(np.float32) for k, v in w.items()}


def norm(x, w, name):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * w[name + ".weight"] + w[name + ".bias"]


def conv1d(x, w, name):
    return jnp.einsum("bti,io->bto", x, w[name + ".weight"]) + w[name + ".bias"]


def gelu_new(x):
    return 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logits_of(w, tokens):
    b, n = tokens.shape
    x = w["wte.weight"][tokens] + w["wpe.weight"][jnp.arange(n)]
    for i in range(LAYERS):
        q, k, v = jnp.split(conv1d(norm(x, w, f"h.{i}.ln_1"), w, f"h.{i}.attn.c_attn"), 3, axis=-1)
        q, k, v = (a.reshape(b, n, HEADS, -1) for a in (q, k, v))
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
        s = jnp.where(np.tril(np.ones((n, n), bool)), s, -jnp.inf)
        a = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v).reshape(b, n, WIDTH)
        x = x + conv1d(a, w, f"h.{i}.attn.c_proj")
        x = x + conv1d(gelu_new(conv1d(norm(x, w, f"h.{i}.ln_2"), w, f"h.{i}.mlp.c_fc")), w, f"h.{i}.mlp.c_proj")
    return norm(x, w, "ln_f") @ w["wte.weight"].T


def loss_of(w, tokens):
    z = jax.nn.log_softmax(logits_of(w, tokens[:, :-1]), -1)
    return -jnp.take_along_axis(z, tokens[:, 1:, None], -1).mean()


def adamw(w, batches):
    """As the sample's: clipped to a norm of 1, decay 0.1 of what has two axes, beta2 0.95; lr 0.01."""
    m, v, losses = ({k: 0 * x for k, x in w.items()} for _ in range(2)), None, []
    m, v = m
    for t, tokens in enumerate(batches, 1):
        loss, g = jax.value_and_grad(loss_of)(w, tokens)
        scale = jnp.minimum(1, 1 / (jnp.sqrt(sum((x**2).sum() for x in g.values())) + 1e-6))
        losses.append(loss)
        for k in w:
            d = g[k] * scale
            m[k], v[k] = 0.9 * m[k] + 0.1 * d, 0.95 * v[k] + 0.05 * d * d
            step = m[k] / (1 - 0.9**t) / (jnp.sqrt(v[k] / (1 - 0.95**t)) + 1e-8)
            w = {**w, k: w[k] - 0.01 * (step + (0.1 * w[k] if w[k].ndim == 2 else 0))}
    return w, losses


def continued(w, text):
    """The most likely tokens, and by how much they are so."""
    text, gaps = [int(t) for t in text], []
    while len(text) < CONTEXT:
        z = np.asarray(logits_of(w, np.array([text], np.int32))[0, -1])
        gaps.append(np.sort(z)[-1] - np.sort(z)[-2])
        text.append(int(np.argmax(z)))
    return text, gaps


for seed in range(1000):  # five tokens, each another, and no near tie decides
    rng = np.random.default_rng(seed)
    w32 = weights(rng)
    w = {k: jnp.asarray(v, jnp.float64) for k, v in w32.items()}
    data = rng.integers(0, VOCAB, (4, T + 1)).astype(np.int32)
    text, gaps = continued(w, data[0, :7])
    if len(set(text[7:])) >= 4 and min(gaps) > 0.05:
        break
names = list(w32)
buffers = {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, CONTEXT, CONTEXT), np.float32)) for i in range(LAYERS)}
first = {k: w32[k] for k in names[: len(names) // 2]}
second = {k: w32[k] for k in names[len(names) // 2 :]} | buffers
parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
write(parts[0], first, {"format": "pt"})
write(parts[1], second, {"format": "pt"})
index = {"metadata": {"total_size": 0}, "weight_map": {k: parts[k in second] for k in [*first, *second]}}
json.dump(index, open(os.path.join(HERE, "model.safetensors.index.json"), "w"), indent=1)

out = {"tokens": data, "logits": logits_of(w, data[:2, :-1]), "loss": loss_of(w, data[:2])}
out |= {"grad/" + k: g for k, g in jax.grad(loss_of)(w, data[:2]).items()}
after, losses = adamw(w, [data[2 * (i % 2) : 2 * (i % 2) + 2] for i in range(STEPS)])
out |= {"after/" + k: x for k, x in after.items()} | {"losses": np.array(losses)}
write("expected.safetensors", out | {"text": np.array(text, np.int32)})
print(seed, losses[0], losses[-1], text, gaps)
