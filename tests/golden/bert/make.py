"""A tiny BERT in the published checkpoints' layout, and what it computes: tests/unit/lib_published.c compares.

    pip install jax && python tests/golden/bert/make.py          (JAX 0.10 made what is in the repository)

Written from the published model's description (tokens, kinds and places added and normed; norms behind each sum; erf GELU; a
head that ends in the table of tokens), in double precision. The weights are of f16, in one file, with the names that
google-bert/bert-base-uncased has: gamma and beta of norms, the pooler and the head for pairs, which is not used here.
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from published import adamw, attention, layer_norm, write  # noqa: E402

LAYERS, WIDTH, HEADS, HIDDEN, VOCAB, CONTEXT, KINDS, T, STEPS = 2, 16, 2, 32, 41, 12, 2, 8, 20
MASK = 3


def weights(rng):
    w = {}

    def dense(name, a, b):
        w[name + ".weight"], w[name + ".bias"] = rng.normal(0, 0.3, (b, a)), rng.normal(0, 0.2, b)

    def norm(name):
        w[name + ".weight"], w[name + ".bias"] = rng.normal(1, 0.2, WIDTH), rng.normal(0, 0.2, WIDTH)

    for name, n in (("word", VOCAB), ("token_type", KINDS), ("position", CONTEXT)):
        w[f"bert.embeddings.{name}_embeddings.weight"] = rng.normal(0, 0.5, (n, WIDTH))
    norm("bert.embeddings.LayerNorm")
    for i in range(LAYERS):
        at = f"bert.encoder.layer.{i}."
        for name in ("query", "key", "value"):
            dense(f"{at}attention.self.{name}", WIDTH, WIDTH)
        dense(at + "attention.output.dense", WIDTH, WIDTH), norm(at + "attention.output.LayerNorm")
        dense(at + "intermediate.dense", WIDTH, HIDDEN)
        dense(at + "output.dense", HIDDEN, WIDTH), norm(at + "output.LayerNorm")
    dense("bert.pooler.dense", WIDTH, WIDTH)
    dense("cls.predictions.transform.dense", WIDTH, WIDTH), norm("cls.predictions.transform.LayerNorm")
    w["cls.predictions.bias"] = rng.normal(0, 0.2, VOCAB)
    return {k: v.astype(np.float16) for k, v in w.items()}


def norm(x, w, name):
    return layer_norm(x, w, name, 1e-12)


def dense(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + jax.scipy.special.erf(x / np.sqrt(2)))


def states_of(w, tokens, kind):
    b, n = tokens.shape
    e = "bert.embeddings."
    x = w[e + "word_embeddings.weight"][tokens] + w[e + "token_type_embeddings.weight"][kind] + w[e + "position_embeddings.weight"][jnp.arange(n)]
    x = norm(x, w, e + "LayerNorm")
    seen = (tokens != 0)[:, None, None, :]
    for i in range(LAYERS):
        at = f"bert.encoder.layer.{i}."
        q, k, v = (dense(x, w, f"{at}attention.self.{name}").reshape(b, n, HEADS, -1) for name in ("query", "key", "value"))
        a = dense(attention(q, k, v, seen), w, at + "attention.output.dense")
        x = norm(x + a, w, at + "attention.output.LayerNorm")
        h = dense(gelu(dense(x, w, at + "intermediate.dense")), w, at + "output.dense")
        x = norm(x + h, w, at + "output.LayerNorm")
    return x


def logits_of(w, tokens):
    p = "cls.predictions."
    h = norm(gelu(dense(states_of(w, tokens, np.zeros(tokens.shape, np.int32)), w, p + "transform.dense")), w, p + "transform.LayerNorm")
    return h @ w["bert.embeddings.word_embeddings.weight"].T + w[p + "bias"]


def loss_of(w, batch):
    tokens, shown = batch
    z = jax.nn.log_softmax(logits_of(w, shown), -1)
    chosen = shown == MASK
    return jnp.where(chosen, -jnp.take_along_axis(z, tokens[..., None], -1)[..., 0], 0).sum() / chosen.sum()


rng = np.random.default_rng(5)
w16 = weights(rng)
old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in w16.items()}
pairs = {"cls.seq_relationship.weight": rng.normal(0, 0.3, (2, WIDTH)).astype(np.float16), "cls.seq_relationship.bias": np.zeros(2, np.float16)}
write(os.path.join(HERE, "model.safetensors"), old | pairs, {"format": "pt"})

w = {k: jnp.asarray(v, jnp.float64) for k, v in w16.items()}
data = rng.integers(4, VOCAB, (4, T)).astype(np.int32)
data[1, 6:], data[2, 5:] = 0, 0  # padding
shown = np.where((rng.random((4, T)) < 0.3) & (data != 0), MASK, data).astype(np.int32)
kind = np.repeat(np.array([[0, 0, 0, 1, 1, 1, 1, 1]], np.int32), 2, 0)
states = states_of(w, data[:2], kind)
out = {"tokens": data, "shown": shown, "kind": kind, "logits": logits_of(w, shown[:2]), "loss": loss_of(w, (data[:2], shown[:2]))}
out |= {"states": states, "pooled": jnp.tanh(dense(states[:, 0], w, "bert.pooler.dense"))}
trained = {k: x for k, x in w.items() if not k.startswith("bert.pooler.")}
out |= {"grad/" + k: g for k, g in jax.grad(loss_of)(trained, (data[:2], shown[:2])).items()}
after, losses = adamw(loss_of, trained, [(data[2 * (i % 2) : 2 * (i % 2) + 2], shown[2 * (i % 2) : 2 * (i % 2) + 2]) for i in range(STEPS)])
out |= {"after/" + k: x for k, x in after.items()} | {"losses": np.array(losses)}
write(os.path.join(HERE, "expected.safetensors"), out)
print(losses[0], losses[-1], (shown == MASK).sum(1))
