"""A tiny LLaMA-style decoder in the published checkpoints' layout, and what it computes: tests/unit/lib_published.c compares.

    pip install jax && python tests/golden/llama/make.py          (JAX 0.10 made what is in the repository)

Written from the published model's description (rms norms before each part, rotary positions over the halves of a head with
Llama 3.1's scaling, groups of queries that share keys and values, SwiGLU, a head of its own), in double precision. The weights
are of bf16, as published, in two files and an index, with the buffers that older files have.
"""
import os
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from published import adamw, attention, causal, continued, next_token_loss, write, write_parts  # noqa: E402

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN, VOCAB, CONTEXT, T, STEPS = 2, 16, 4, 2, 8, 24, 41, 12, 8, 20
BASE, FACTOR, TRAINED, LOW, HIGH = 10000.0, 8.0, 128, 1.0, 4.0


def weights(rng):
    w = {"model.embed_tokens.weight": rng.normal(0, 0.5, (VOCAB, WIDTH))}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        for name, a, b in (("q", WIDTH, HEADS * HEAD), ("k", WIDTH, KV_HEADS * HEAD), ("v", WIDTH, KV_HEADS * HEAD), ("o", HEADS * HEAD, WIDTH)):
            w[f"{at}self_attn.{name}_proj.weight"] = rng.normal(0, 0.4, (b, a))
        for name, a, b in (("gate", WIDTH, HIDDEN), ("up", WIDTH, HIDDEN), ("down", HIDDEN, WIDTH)):
            w[f"{at}mlp.{name}_proj.weight"] = rng.normal(0, 0.3, (b, a))
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[f"{at}{name}.weight"] = rng.normal(1, 0.2, WIDTH)
    w["model.norm.weight"], w["lm_head.weight"] = rng.normal(1, 0.2, WIDTH), rng.normal(0, 0.4, (VOCAB, WIDTH))
    return {k: v.astype(ml_dtypes.bfloat16) for k, v in w.items()}


def norm(x, w, name):
    return w[name + ".weight"] * (x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5))


def inverse_frequencies():
    out = []
    for i in range(HEAD // 2):
        f = BASE ** (-2 * i / HEAD)
        wave = 2 * np.pi / f
        if wave > TRAINED / LOW:
            f /= FACTOR
        elif wave >= TRAINED / HIGH:
            smooth = (TRAINED / wave - LOW) / (HIGH - LOW)
            f = (1 - smooth) * f / FACTOR + smooth * f
        out.append(f)
    return np.array(out)


def rotated(x):
    """(B, n, heads, d): x cos + rotate_half(x) sin"""
    angles = np.outer(np.arange(x.shape[1]), inverse_frequencies())
    angles = np.concatenate([angles, angles], -1)[:, None, :]
    half = jnp.concatenate([-x[..., HEAD // 2 :], x[..., : HEAD // 2]], -1)
    return x * np.cos(angles) + half * np.sin(angles)


def logits_of(w, tokens):
    b, n = tokens.shape
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        dense = lambda h, name: h @ w[at + name + "_proj.weight"].T
        h = norm(x, w, at + "input_layernorm")
        q, k, v = (dense(h, "self_attn." + c).reshape(b, n, -1, HEAD) for c in "qkv")
        k, v = (jnp.repeat(a, HEADS // KV_HEADS, axis=2) for a in (rotated(k), v))
        x = x + dense(attention(rotated(q), k, v, causal(n)), "self_attn.o")
        h = norm(x, w, at + "post_attention_layernorm")
        x = x + dense(jax.nn.silu(dense(h, "mlp.gate")) * dense(h, "mlp.up"), "mlp.down")
    return norm(x, w, "model.norm") @ w["lm_head.weight"].T


def loss_of(w, tokens):
    return next_token_loss(logits_of, w, tokens)


for seed in range(1000):  # five tokens, each another, and no near tie decides
    rng = np.random.default_rng(seed)
    w16 = weights(rng)
    w = {k: jnp.asarray(v, jnp.float64) for k, v in w16.items()}
    data = rng.integers(0, VOCAB, (4, T + 1)).astype(np.int32)
    text, gaps = continued(logits_of, w, data[0, :7], CONTEXT)
    if len(set(text[7:])) >= 4 and min(gaps) > 0.05:
        break
buffers = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": inverse_frequencies().astype(np.float32) for i in range(LAYERS)}
names = list(w16)
write_parts(HERE, {k: w16[k] for k in names[: len(names) // 2]}, {k: w16[k] for k in names[len(names) // 2 :]} | buffers)

out = {"tokens": data, "logits": logits_of(w, data[:2, :-1]), "loss": loss_of(w, data[:2])}
out |= {"grad/" + k: g for k, g in jax.grad(loss_of)(w, data[:2]).items()}
after, losses = adamw(loss_of, w, [data[2 * (i % 2) : 2 * (i % 2) + 2] for i in range(STEPS)])
out |= {"after/" + k: x for k, x in after.items()} | {"losses": np.array(losses)}
write(os.path.join(HERE, "expected.safetensors"), out | {"text": np.array(text, np.int32)})
print(seed, losses[0], losses[-1], text, gaps)
