"""Layers of the standard library, and what transformers and recurrent networks are made of."""
import math

import jax
import jax.numpy as jnp
import numpy as np

from goldens import HEAD, File, R


def layers():
    f = File("layers")
    for i, (n, w) in enumerate([(1, 1), (5, 3), (33, 7), (65, 129)]):
        w_, b_ = f"fc_{i}.weight", f"fc_{i}.bias"
        f.case(f"linear_{i}", {"x": R([4, n])}, [("y", f"linear(x, {w}) as fc_{i}", lambda x, **c: x @ c[w_].T + c[b_])], ["x", w_, b_], cells={w_: R([w, n], -1, 1), b_: R([w])})
        w2 = f"bare_{i}.weight"
        f.case(f"bare_{i}", {"x": R([2, 3, n])}, [("y", f"linear(x, {w}, use_bias = false) as bare_{i}", lambda x, **c: x @ c[w2].T)], ["x", w2], cells={w2: R([w, n], -1, 1)})
    for i, n in enumerate([2, 7, 33, 65, 257]):
        lw, lb, rw = f"ln_{i}.weight", f"ln_{i}.bias", f"rms_{i}.weight"
        norm = lambda x, eps=1e-5: (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + eps)
        f.case(f"layer_norm_{i}", {"x": R([3, n])}, [("y", f"layer_norm(x) as ln_{i}", lambda x, **c: norm(x) * c[lw] + c[lb])], ["x", lw, lb], ["x"] if i in (1, 2) else [], cells={lw: R([n]), lb: R([n])})
        f.case(f"plain_norm_{i}", {"x": R([2, 2, n])}, [("y", "layer_norm(x, eps = 0.01, affine = false)", lambda x: norm(x, 0.01))], ["x"])
        f.case(f"rms_norm_{i}", {"x": R([3, n])}, [("y", f"rms_norm(x) as rms_{i}", lambda x, **c: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * c[rw])], ["x", rw], cells={rw: R([n])})
        c4 = {f"bn_{i}.weight": R([n]), f"bn_{i}.bias": R([n]), f"bn_{i}.running_mean": R([n]), f"bn_{i}.running_var": R([n], 0.5, 2)}
        w_, b_, m_, v_ = c4
        f.case(f"batch_norm_{i}", {"x": R([5, n])}, [("y", f"batch_norm(x) as bn_{i}", lambda x, **c: (x - c[m_]) / jnp.sqrt(c[v_] + 1e-5) * c[w_] + c[b_])], ["x", w_, b_], cells=c4)
    for i, (b, n) in enumerate([(1, 1), (3, 5), (7, 33), (33, 65)]):
        lab = {"l": R([b], 0, n, dtype="i32", bound=(0, n))}
        lp = lambda x: jax.nn.log_softmax(x, -1)
        pick = lambda x, l: lp(x)[jnp.arange(x.shape[0]), l]
        f.case(f"loss_{i}", {"x": R([b, n], -4, 4), **lab}, [
            ("ce", "cross_entropy(x, l)", lambda x, l: -jnp.mean(pick(x, l))),
            ("smooth", "cross_entropy(x, l, smoothing = 0.1)", lambda x, l: -jnp.mean(0.9 * pick(x, l) + 0.1 * jnp.mean(lp(x), -1))),
        ], ["x"], ["x"])
        f.case(f"hits_{i}", {"x": R([b, n], apart=True), **lab}, [("y", "accuracy(x, l)", lambda x, l: jnp.mean((jnp.argmax(x, -1) == l) * 1.0))])
        f.case(f"pairs_{i}", {"x": R([b, n], -4, 4), "t": R([b, n], 0, 1)}, [
            ("bce", "bce_with_logits(x, t)", lambda x, t: jnp.mean(-t * jax.nn.log_sigmoid(x) - (1 - t) * jax.nn.log_sigmoid(-x))),
            ("sq", "mse(x, t)", lambda x, t: jnp.mean((x - t) ** 2)), ("ab", "l1(x, t)", lambda x, t: jnp.mean(jnp.abs(x - t))),
            ("hub", "huber(x, t)", lambda x, t: jnp.mean(jnp.where(jnp.abs(x - t) <= 1, 0.5 * (x - t) ** 2, jnp.abs(x - t) - 0.5))),
            ("hub2", "huber(x, t, delta = 2)", lambda x, t: jnp.mean(jnp.where(jnp.abs(x - t) <= 2, 0.5 * (x - t) ** 2, 2 * (jnp.abs(x - t) - 1)))),
        ], ["x", "t"])
        f.case(f"sides_{i}", {"x": R([b, n], -4, 4), "t": R([b, n], dtype="bool")}, [("y", "binary_accuracy(x, t)", lambda x, t: jnp.mean(((x > 0) == t) * 1.0)),
            ("bce", "bce_with_logits(x, t)", lambda x, t: jnp.mean(jnp.logaddexp(0.0, x) - x * t))])
    e = "emb.weight"
    f.case("embedding_0", {"t": R([3, 4], 0, 11, dtype="i32", bound=(0, 11))}, [("y", "embedding(t, 11, 5) as emb", lambda t, **c: c[e][t])], [e], cells={e: R([11, 5])})
    a, b = "one.weight", "two.weight"
    f.case("tied", {"x": R([3, 6], -1, 1)}, [("y", "tanh(linear(tanh(linear(x, 6, use_bias = false) as one), 6, use_bias = false) reuse one)", lambda x, **c: jnp.tanh(jnp.tanh(x @ c[a].T) @ c[a].T))], ["x", a], cells={a: R([6, 6], -1, 1)})
    f.write()


# -- what transformers and recurrent networks are made of ----------------------------------------------
def heads_of(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def multi_head(x, c, name, heads, over=None, shared=None, mask=None, bias=False):
    shared, source = shared or heads, x if over is None else over
    dense = lambda a, n: a @ c[f"{name}.{n}.weight"].T + (c[f"{name}.{n}.bias"] if bias else 0)
    q, k, v = heads_of(dense(x, "query"), heads), heads_of(dense(source, "key"), shared), heads_of(dense(source, "value"), shared)
    k, v = (jnp.repeat(a, heads // shared, axis=1) for a in (k, v))
    s = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        s = jnp.where(mask, s, -jnp.inf)
    y = (jax.nn.softmax(s) @ v).transpose(0, 2, 1, 3)
    return dense(y.reshape(*y.shape[:2], -1), "out")


def norm_of(x, c, name):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * c[name + ".weight"] + c[name + ".bias"]


def mixture(x, c, name, count, top, room, act, gated):
    """Every expert sees every token; choices and capacity only weigh what they make of it."""
    flat = x.reshape(-1, x.shape[-1])
    p = jax.nn.softmax(flat @ c[name + ".router.weight"].T)
    likely, choice = jax.lax.top_k(p, top)
    hot = jax.nn.one_hot(choice, count, dtype=jnp.float64)  # (n, top, count)
    in_order = hot.transpose(1, 0, 2).reshape(-1, count)  # all first choices, then all second ones
    before = (jnp.cumsum(in_order, 0) - in_order).reshape(top, -1, count).transpose(1, 0, 2)
    share = likely / likely.sum(-1, keepdims=True) if top > 1 else likely
    weight = (hot * (before < room) * share[..., None]).sum(1)
    h = jnp.einsum("nc,ehc->neh", flat, c[name + ".up"])
    h = act(jnp.einsum("nc,ehc->neh", flat, c[name + ".gate"])) * h if gated else act(h)
    y = jnp.einsum("neh,ech,ne->nc", h, c[name + ".down"], weight)
    return y.reshape(x.shape), count * jnp.sum(hot.mean((0, 1)) * p.mean(0))


def networks():
    f = File("networks", HEAD.replace("use nn\n", "use nn\nuse transformer\nuse recurrent\n"))
    sizes = lambda name, w, shared, n, bias: {
        f"{name}.{l}.{p}": R(([a, b] if p == "weight" else [a]), -1, 1)
        for l, a, b in (("query", w, w), ("key", shared, n), ("value", shared, n), ("out", w, w)) for p in (("weight", "bias") if bias else ("weight",))}
    causal = lambda n: np.tril(np.ones((n, n), bool))
    near = lambda n, w: causal(n) & ~np.tril(np.ones((n, n), bool), -w)

    c = sizes("own", 6, 6, 6, True)
    f.case("own", {"x": R([2, 5, 6], -1, 1)}, [("y", "multi_head(x, 3, use_bias = true, causal = true) as own",
                                                lambda x, **c: multi_head(x, c, "own", 3, mask=causal(5), bias=True))], ["x", *c], cells=c)
    c = sizes("groups", 12, 6, 12, False)
    f.case("groups", {"x": R([2, 7, 12], -1, 1)}, [("y", "multi_head(x, 4, kv_heads = 2, causal = true, window = 3) as groups",
                                                    lambda x, **c: multi_head(x, c, "groups", 4, shared=2, mask=near(7, 3)))], ["x", *c], cells=c)
    c = sizes("cross", 4, 4, 9, False)
    f.case("cross", {"x": R([3, 4, 4], -1, 1), "z": R([3, 6, 9], -1, 1), "n": R([3], values=[6, 1, 4], dtype="i32")},
           [("y", "multi_head(x, 2, over = z, mask = key_mask(n, 6)) as cross",
             lambda x, z, n, **c: multi_head(x, c, "cross", 2, over=z, mask=np.arange(6) < n[:, None, None, None]))], ["x", "z", *c], cells=c)
    f.case("pieces", {"x": R([2, 4, 6, 3])}, [("y", "patches(x, 2)", lambda x: jnp.stack([x[:, i:i + 2, j:j + 2].reshape(2, -1) for i in (0, 2) for j in (0, 2, 4)], 1))], ["x"])
    c = {"ff.up.weight": R([10, 6], -1, 1), "ff.up.bias": R([10]), "ff.down.weight": R([6, 10], -1, 1), "ff.down.bias": R([6])}
    f.case("feed", {"x": R([2, 3, 6], -1, 1)}, [("y", "mlp(x, 10, act = tanh) as ff", lambda x, **c: jnp.tanh(x @ c["ff.up.weight"].T + c["ff.up.bias"]) @ c["ff.down.weight"].T + c["ff.down.bias"])], ["x", *c], cells=c)
    c = {"glu.gate.weight": R([10, 6], -1, 1), "glu.up.weight": R([10, 6], -1, 1), "glu.down.weight": R([6, 10], -1, 1)}
    f.case("gated", {"x": R([2, 3, 6], -1, 1)}, [("y", "swiglu(x, 10) as glu", lambda x, **c: (jax.nn.silu(x @ c["glu.gate.weight"].T) * (x @ c["glu.up.weight"].T)) @ c["glu.down.weight"].T)], ["x", *c], cells=c)
    for kind, first in (("before", True), ("behind", False)):
        c = {**sizes(f"{kind}.attn", 6, 6, 6, False), **{f"{kind}.{n}.{p}": R([6]) for n in ("norm1", "norm2") for p in ("weight", "bias")},
             f"{kind}.ff.up.weight": R([8, 6], -1, 1), f"{kind}.ff.down.weight": R([6, 8], -1, 1)}

        def run(x, kind=kind, first=first, **c):
            see = lambda a: multi_head(a, c, f"{kind}.attn", 2, mask=causal(4))
            feed = lambda a: jnp.tanh(a @ c[f"{kind}.ff.up.weight"].T) @ c[f"{kind}.ff.down.weight"].T
            if first:
                x = x + see(norm_of(x, c, f"{kind}.norm1"))
                return x + feed(norm_of(x, c, f"{kind}.norm2"))
            x = norm_of(x + see(x), c, f"{kind}.norm1")
            return norm_of(x + feed(x), c, f"{kind}.norm2")
        f.case(kind, {"x": R([2, 4, 6], -1, 1)}, [("y", f"block(x, multi_head(heads = 2, causal = true), mlp(hidden = 8, act = tanh, use_bias = false), first = {str(first).lower()}) as {kind}", run)], ["x", *c], cells=c)

    def rounds(x, c, step, width, carried=1):
        s, all = [jnp.zeros((x.shape[0], width))] * carried, []
        into = x @ c["input.weight"].T + c["input.bias"]
        for t in range(x.shape[1]):
            s = step(into[:, t], *s)
            all.append(s[0])
        return jnp.stack(all, 1)

    def gru(a, h, c):
        ar, au, an = jnp.split(a, 3, -1)
        hr, hu, hn = jnp.split(h @ c["hidden"].T + c["bias"], 3, -1)
        u = jax.nn.sigmoid(au + hu)
        return [(1 - u) * jnp.tanh(an + jax.nn.sigmoid(ar + hr) * hn) + u * h]

    def lstm(a, h, m, c):
        i, g, n, o = jnp.split(a + h @ c["hidden"].T, 4, -1)
        m = jax.nn.sigmoid(g + 1) * m + jax.nn.sigmoid(i) * jnp.tanh(n)
        return [jax.nn.sigmoid(o) * jnp.tanh(m), m]
    for kind, gates, step, carried in (("rnn", 1, lambda a, h, c: [jnp.tanh(a + h @ c["hidden"].T)], 1), ("gru", 3, gru, 1), ("lstm", 4, lstm, 2)):
        for b, t, n, w in ((2, 4, 3, 5), (1, 1, 1, 1), (3, 7, 5, 9)):
            name = f"{kind}_{b}"
            c = {f"{name}.input.weight": R([gates * w, n], -1, 1), f"{name}.input.bias": R([gates * w], -1, 1), f"{name}.hidden": R([gates * w, w], -1, 1)}
            if kind == "gru":
                c[f"{name}.bias"] = R([gates * w], -1, 1)

            def run(x, name=name, step=step, w=w, carried=carried, **c):
                c = {k[len(name) + 1:]: v for k, v in c.items()}
                return rounds(x, c, lambda a, *s: step(a, *s, c), w, carried)
            last = {"rnn": "all, last", "gru": "all, last", "lstm": "all, last, cell"}[kind]
            f.case(name, {"x": R([b, t, n], -1, 1)}, [("y", "states", run)], ["x", *c], cells=c, before=[f"{last.replace('all', 'states')} = {kind}(x, {w}) as {name}"])
    # Seven of fourteen choices at most: of each expert three; then one expert a token, of all that come.
    for name, top, capacity, room, act, gated in (("mix", 2, 0.6, 3, jax.nn.silu, True), ("one", 1, None, 7, lambda a: jax.nn.relu(a) ** 2, False)):
        c = {f"{name}.router.weight": R([3, 4], -2, 2), f"{name}.up": R([3, 5, 4], -1, 1), f"{name}.down": R([3, 4, 5], -1, 1)}
        if gated:
            c[f"{name}.gate"] = R([3, 5, 4], -1, 1)
        run = lambda x, a=(name, 3, top, room, act, gated), **c: sum(mixture(x, c, *a))
        how = "" if gated else ", act = relu_squared, gated = false"
        f.case(name, {"x": R([1, 7, 4], -1, 1)}, [("y", "made + balance", run)], ["x", *c], cells=c,
            before=[f"made, balance = experts(x, 3, 5, top = {top}, capacity = {'none' if capacity is None else capacity}{how}) as {name}"])
    f.write()
