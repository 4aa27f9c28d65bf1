"""A tiny GPT-2 in the published checkpoint's layout, and what it computes: tests/unit/lib_published.c compares.

    pip install jax && python tests/golden/gpt2/make.py          (JAX 0.10 made what is in the repository)

Written from the published model's description (pre-norm blocks, Conv1D weights [in, out], tanh GELU, tied head), in
double precision. The weights come in two files and an index, with the buffers that the published file has.
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from published import adamw, attention, causal, continued, layer_norm, next_token_loss, write, write_parts  # noqa: E402

LAYERS, WIDTH, HEADS, VOCAB, CONTEXT, T, STEPS = 2, 16, 2, 41, 12, 8, 20


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
    return layer_norm(x, w, name, 1e-5)


def conv1d(x, w, name):
    return jnp.einsum("bti,io->bto", x, w[name + ".weight"]) + w[name + ".bias"]


def gelu_new(x):
    return 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logits_of(w, tokens):
    b, n = tokens.shape
    x = w["wte.weight"][tokens] + w["wpe.weight"][jnp.arange(n)]
    for i in range(LAYERS):
        q, k, v = jnp.split(conv1d(norm(x, w, f"h.{i}.ln_1"), w, f"h.{i}.attn.c_attn"), 3, axis=-1)
        a = attention(*(a.reshape(b, n, HEADS, -1) for a in (q, k, v)), causal(n))
        x = x + conv1d(a, w, f"h.{i}.attn.c_proj")
        x = x + conv1d(gelu_new(conv1d(norm(x, w, f"h.{i}.ln_2"), w, f"h.{i}.mlp.c_fc")), w, f"h.{i}.mlp.c_proj")
    return norm(x, w, "ln_f") @ w["wte.weight"].T


def loss_of(w, tokens):
    return next_token_loss(logits_of, w, tokens)


for seed in range(1000):  # five tokens, each another, and no near tie decides
    rng = np.random.default_rng(seed)
    w32 = weights(rng)
    w = {k: jnp.asarray(v, jnp.float64) for k, v in w32.items()}
    data = rng.integers(0, VOCAB, (4, T + 1)).astype(np.int32)
    text, gaps = continued(logits_of, w, data[0, :7], CONTEXT)
    if len(set(text[7:])) >= 4 and min(gaps) > 0.05:
        break
names = list(w32)
buffers = {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, CONTEXT, CONTEXT), np.float32)) for i in range(LAYERS)}
write_parts(HERE, {k: w32[k] for k in names[: len(names) // 2]}, {k: w32[k] for k in names[len(names) // 2 :]} | buffers)

out = {"tokens": data, "logits": logits_of(w, data[:2, :-1]), "loss": loss_of(w, data[:2])}
out |= {"grad/" + k: g for k, g in jax.grad(loss_of)(w, data[:2]).items()}
after, losses = adamw(loss_of, w, [data[2 * (i % 2) : 2 * (i % 2) + 2] for i in range(STEPS)])
out |= {"after/" + k: x for k, x in after.items()} | {"losses": np.array(losses)}
write(os.path.join(HERE, "expected.safetensors"), out | {"text": np.array(text, np.int32)})
print(seed, losses[0], losses[-1], text, gaps)
