"""Entries in JAX: gradients beside its own, jit, vmap; on TEST_DEVICE, else the CPU."""

import os

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
os.environ["JAX_PLATFORMS"] = "cpu" if DEVICE == "cpu" else "cuda"
if DEVICE != "cpu":  # a graph as soon as one thing can be in it
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_graph_min_graph_size=1"

import gc

import jax
import jax.numpy as jnp
import netc
import numpy as np
from harness import check, raises, run, same
from nets import BLOCK, STATEFUL

jax.config.update("jax_default_matmul_precision", "highest")
m = netc.compile(BLOCK, name="block.net", device=DEVICE)
P = {n: jnp.asarray(m.state[n]) for n in m.state if "." in n}
r = np.random.default_rng(1)
X, LABEL = jnp.asarray(r.normal(size=(8, 64)), jnp.float32), jnp.asarray(r.integers(0, 4, 8), jnp.uint8)


def own(p, x, label):
    """The block in JAX."""
    d = x - x.mean(-1, keepdims=True)
    h = d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * p["norm.weight"] + p["norm.bias"]
    h = jax.nn.gelu(h @ p["up.weight"].T + p["up.bias"], approximate=False)
    logits = (x + h @ p["down.weight"].T + p["down.bias"]) @ p["head.weight"].T + p["head.bias"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), label.astype(int)[:, None], 1).mean(), logits


def near(got, want, tolerance=1e-5):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        check(a.shape == b.shape and float(abs(a - b).max()) <= tolerance * max(1.0, float(abs(b).max())), (a, b))


def test_function():
    f = m.jax(params="*")
    got, want = f(X, LABEL, params=P), own(P, X, LABEL)
    near(got[:2], want)
    same(got.best.tolist(), want[1].argmax(1).tolist())
    for wrap in (lambda g: g, jax.jit):
        a = wrap(jax.value_and_grad(lambda p, x: f(x, LABEL, params=p).loss, (0, 1)))(P, X)
        near(a, jax.value_and_grad(lambda p, x: own(p, x, LABEL)[0], (0, 1))(P, X))
    both = [jax.jit(jax.grad(lambda x: (g(x)[0] * 3 + (g(x)[1] ** 2).sum())))(X)
            for g in (lambda x: f(x, label=LABEL, params=P), lambda x: own(P, x, LABEL))]
    near(*both)
    near(jax.jit(m.jax(outputs="logits"))(X), want[1])  # the model's own parameters
    near(f(np.asarray(X), np.asarray(LABEL), params=P).loss, want[0])


def test_graphs():
    """Where XLA may capture calls, two of one function that need not wait for each other."""
    def trained(f):
        step = jax.jit(lambda p, x: jax.tree.map(lambda v, g: v - 0.1 * g, p, jax.grad(
            lambda p: f(x, LABEL, params=p).loss + f(0.5 * x, LABEL, params=p).loss)(p)))
        p, seen = P, jnp.zeros(())
        for k in range(20):
            p = step(p, X * (1 + k / 20))
            seen = seen + f(X, LABEL, params=p).loss  # outside of the step, in between
        return p, seen
    near(trained(m.jax(params="*", graphs=True)), trained(m.jax(params="*")), 1e-4)
    f = m.jax(outputs="logits", graphs=True)  # the model's own parameters
    both = jax.jit(lambda x: (f(x), f(x + 1)))
    near([both(X * k) for k in (1, 2, 3)], [(own(P, X * k, LABEL)[1], own(P, X * k + 1, LABEL)[1]) for k in (1, 2, 3)])
    looks = netc.compile("model looks(i: i32[2], x: f32[4]) { return y = x[i] }", device=DEVICE)
    with raises(netc.Error, "'looks' checks indices", "in 0..10", "graphs=True"):
        looks.jax(graphs=True)
    same(looks.jax()(np.array([2, 1], "i4"), np.arange(4, dtype="f4")).tolist(), [2, 1])


def test_second():
    """Gradients of gradients."""
    f, v = m.jax(params="*"), jnp.asarray(r.normal(size=(8, 64)), jnp.float32)
    fs = lambda p, x: f(x, LABEL, params=p)[:2], lambda p, x: own(p, x, LABEL)

    def penalized(g):  # as a penalty on gradients is trained
        def loss(p, x):
            return g(p, x)[0] + (g(p, x)[1] ** 2).mean()
        return jax.grad(lambda p, x: loss(p, x) + sum((d * d).sum() for d in jax.tree.leaves(jax.grad(loss, (0, 1))(p, x))), (0, 1))
    near(*[jax.jit(penalized(g))(P, X) for g in fs], 1e-4)
    near(*[jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: g(P, x)[0])(x), v))(X) for g in fs])
    near(*[jax.vmap(jax.grad(lambda x: (jax.grad(lambda x: g(P, x)[0])(x) ** 2).sum()))(jnp.stack([X, X + 1])) for g in fs])
    # By the cotangent, too.
    near(*[jax.grad(lambda c: (jax.vjp(lambda x: g(P, x)[1], X)[1](c)[0] ** 3).sum())(jnp.ones((8, 4)) * v[:, :4]) for g in fs], 1e-4)
    cube = netc.compile("use nn\nmodel d(x: f32[64]) { return y = dropout(x * x * x, 0.5) }", device=DEVICE)
    cube, ones = cube.jax(training=True, states=True), jnp.ones(64)
    second = jax.grad(lambda x: jax.grad(lambda x: cube(cube.states(), x)[0].sum())(x).sum())
    same(second(ones).tolist(), (6 * cube(cube.states(), ones)[0]).tolist())  # of the same draws
    with raises(netc.Error, "'d' cannot be differentiated three times"):
        jax.grad(lambda x: second(x).sum())(ones)


def test_vmap():
    f = m.jax(params="*", outputs="loss")
    xs = jnp.stack([X, X + 1, X * 2])
    near(jax.vmap(lambda x: f(x, LABEL, params=P))(xs), jnp.stack([own(P, x, LABEL)[0] for x in xs]))
    near(jax.jit(jax.vmap(jax.grad(lambda x: f(x, LABEL, params=P))))(xs),
         jnp.stack([jax.grad(lambda x: own(P, x, LABEL)[0])(x) for x in xs]))
    # Members of an ensemble, members beside examples, one axis within another, an axis that is not the first.
    ps = jax.tree.map(lambda v: jnp.stack([v, v * 0.9, v + 0.1]), P)
    value, theirs = (lambda p, x: f(x, LABEL, params=p)), (lambda p, x: own(p, x, LABEL)[0])
    for axes in ((0, None), (0, 0), (None, 0)):
        given = [of if axis == 0 else one for axis, of, one in zip(axes, (ps, xs), (P, X))]
        near(*[jax.vmap(g, axes)(*given) for g in (value, theirs)])
    near(*[jax.vmap(jax.vmap(jax.grad(g), (None, 0)), (0, None))(ps, xs) for g in (value, theirs)])
    near(*[jax.vmap(jax.vmap(jax.grad(g), (0, None)), (None, 0))(ps, xs) for g in (value, theirs)])
    near(*[jax.vmap(jax.vmap(g, (0, 0)), (None, 0))(ps, jnp.stack([xs, xs + 1])) for g in (value, theirs)])
    near(*[jax.vmap(lambda x: g(P, x.T), -1)(xs.T) for g in (value, theirs)])
    # No example, also within others.
    same(*[jax.tree.map(jnp.shape, jax.vmap(jax.grad(g), (None, 0))(P, xs[:0])) for g in (value, theirs)])
    same(jax.vmap(jax.vmap(lambda x: value(P, x)))(jnp.stack([xs, xs])[:, :0]).shape, (2, 0))
    same(jax.vmap(jax.vmap(lambda x: value(P, x)))(jnp.stack([xs, xs])[:0]).shape, (0, len(xs)))
    # One call each, not one for every example; of a function of the model's own parameters, too.
    for g in (jax.vmap(lambda x: f(x, LABEL, params=P)), jax.vmap(m.jax(outputs="logits"))):
        text = jax.jit(g).lower(xs).as_text()
        check("while" not in text and text.count("netc_call") == 1, text)
    same(jax.vmap(m.jax(outputs="best"))(xs).tolist(), [own(P, x, LABEL)[1].argmax(1).tolist() for x in xs])


def test_vmap_checks():
    """What an entry checks of each example, and its draws, which are those of one call."""
    n = netc.compile("""
model look(table: f32[5, 2], i: i32[3]) { return y = table[i] }
model drawn(x: f32[4]) { return y = x + uniform([4], 0, 1) }
model sure(x: f32[4]) { assert all(x > 0), "positive"; return y = log(x) }
""", device=DEVICE)
    table, i = jnp.arange(10, dtype=jnp.float32).reshape(5, 2), jnp.asarray([[0, 4, 2], [3, 3, 1]], jnp.int32)
    look = n.jax("look")
    same(jax.vmap(look, (None, 0))(table, i).tolist(), table[i].tolist())
    same(jax.vmap(look)(jnp.stack([table, table + 1]), i).tolist(), [table[i[0]].tolist(), (table + 1)[i[1]].tolist()])
    for wrong in (5, -1):
        with raises(Exception, f"index of gather: {wrong} at element 1 is outside 0..5"):
            jax.block_until_ready(jax.vmap(look)(jnp.stack([table, table]), i.at[0, 1].set(wrong)))
    sure = n.jax("sure")
    near(jax.vmap(sure)(jnp.ones((2, 4))), jnp.zeros((2, 4)))
    with raises(Exception, "positive"):
        jax.block_until_ready(jax.vmap(sure)(jnp.ones((2, 4)).at[1, 2].set(-1)))
    drawn = n.jax("drawn", states=True)
    s, xs = drawn.states(), jnp.zeros((2, 4))
    y, then = jax.vmap(drawn, (None, 0))(s, xs)
    same(y.tolist(), [drawn(s, xs[0])[0].tolist()] * 2)
    apart = {"@runs.drawn": jnp.asarray([0, 1], jnp.int32)}
    same(jax.vmap(drawn)(apart, xs)[0].tolist(), [drawn({"@runs.drawn": k}, xs[0])[0].tolist() for k in apart["@runs.drawn"]])
    same(then["@runs.drawn"].tolist(), [1, 1])


NORMED = """
use nn
model normed(x: f32[6, 3]) {
    state seen: f32[2] = 0
    h = batch_norm(x, momentum = 0.1) as bn
    y = h * (1 + seen[0])
    seen <- concat([seen[1:], reshape(mean(x), [1])])
    return y, total = sum(y)
}
"""


def test_states():
    """An entry that changes states, as a function of them."""
    n = netc.compile(NORMED, device=DEVICE)
    f, looks = (n.jax(training=training, states=True) for training in (True, False))

    def theirs(s, x):
        mean, var = x.mean(0), x.var(0)
        y = (x - mean) * jax.lax.rsqrt(var + 1e-5) * (1 + s["seen"][0])
        return (y, y.sum()), {"bn.running_mean": 0.9 * s["bn.running_mean"] + 0.1 * mean,
                              "bn.running_var": 0.9 * s["bn.running_var"] + 0.1 * var * 6 / 5,
                              "seen": jnp.stack([s["seen"][1], x.mean()])}
    s = f.states()
    same(sorted(s), ["bn.running_mean", "bn.running_var", "seen"])
    xs = jnp.asarray(r.normal(size=(4, 6, 3)), jnp.float32)
    near(f(s, xs[0]), theirs(s, xs[0]))
    near(jax.jit(f)(s, x=xs[1]), theirs(s, xs[1]))
    both = [jax.jit(lambda s: jax.lax.scan(lambda s, x: g(s, x)[::-1], s, xs))(s) for g in (f, theirs)]
    near(both[0][0], both[1][0]), near(both[0][1][0], both[1][1][0])
    later = both[0][0]
    near(jax.grad(lambda x: (f(later, x)[0].y ** 3).sum())(xs[0]),
         jax.grad(lambda x: (theirs(later, x)[0][0] ** 3).sum())(xs[0]), 1e-4)
    none = jax.grad(lambda s: f(s, xs[0])[1]["seen"].sum() + f(s, xs[0])[0].y.sum())(later)  # as through <-
    check(all(float(abs(g).max()) == 0 for g in none.values()), none)
    many = jax.tree.map(lambda v: jnp.stack([v, v + 1]), later)
    near(jax.vmap(f)(many, xs[:2])[1], jax.vmap(theirs)(many, xs[:2])[1])
    want = (xs[0] - later["bn.running_mean"]) * jax.lax.rsqrt(later["bn.running_var"] + 1e-5) * (1 + later["seen"][0])
    y, then = looks(later, xs[0])
    near(y.y, want), near(then["bn.running_var"], later["bn.running_var"])
    near(n.state["seen"], np.zeros(2, "f4"))  # the model's own are as they were
    h = netc.compile("model kept(x: f32[3]) { scratch state h: f32[3] = 0.5; h <- tanh(h + x); return y = h }", device=DEVICE)
    kept = h.jax(states=True)
    near(jax.vmap(kept, (None, 0))(kept.states(), xs[0])[1]["h"], jnp.tanh(0.5 + xs[0]))
    n.state.update(later)
    near(looks.states(), later)
    drops = netc.compile(STATEFUL, device=DEVICE, seed=7).jax(training=True, states=True)
    s, ones = drops.states(), jnp.ones((64, 8))
    (first, s1), (second, _) = drops(s, ones), drops({**s, "@runs.drops": s["@runs.drops"] + 1}, ones)
    check(set(np.unique(first)) == {0, 4} and float(s1["calls"]) == 2 and int(s1["@runs.drops"]) == 1, s1)
    check(not np.array_equal(first, second) and np.array_equal(first, drops(s, ones)[0]))  # by the count alone
    same(jax.grad(lambda x: drops(s1, x)[0].sum())(ones).tolist(), drops(s1, ones)[0].tolist())
    for call, kind, words in [
        (lambda: f(xs[0]), TypeError, ["first argument is a dict of states", "f.states()"]),
        (lambda: f({"seen": later["seen"]}, xs[0]), TypeError, ["no state 'bn.running_"]),
        (lambda: f({**later, "seen": jnp.zeros(3)}, xs[0]), netc.Error, ["state 'seen' is f32[2]", "[3]"]),
        (lambda: n.jax(training=True), netc.Error, ["changes states", "states=True"]),
    ]:
        with raises(kind, *words):
            call()


def test_training():
    """A hundred steps of gradient descent as JAX's own function takes them."""
    f = m.jax(params="*", outputs="loss")

    def steps(loss):
        step = jax.jit(lambda p: jax.tree.map(lambda v, g: v - 0.1 * g, p, jax.grad(loss)(p)))
        p = P
        for _ in range(100):
            p = step(p)
        return p, loss(p)
    mine, theirs = steps(lambda p: f(X, LABEL, params=p)), steps(lambda p: own(p, X, LABEL)[0])
    near(mine, theirs, 1e-4)
    check(float(mine[1]) < 0.1, mine[1])


def test_wrong():
    f = m.jax(params="head.*")
    head = {n: v for n, v in P.items() if n.startswith("head")}
    for call, kind, words in [
        (lambda: f(X[:3], LABEL, params=head), netc.Error, ["'x' is f32[8, 64]", "[3, 64]"]),
        (lambda: jax.jit(f)(X.astype(jnp.float16), LABEL, params=head), netc.Error, ["'x' is f32[8, 64]", "float16"]),
        (lambda: f(X, LABEL), TypeError, ["parameter 'head.weight'"]),
        (lambda: m.jax(params="hed.weight"), netc.Error, ["did you mean 'head.weight'"]),
        (lambda: netc.compile(STATEFUL, device=DEVICE).jax(), netc.Error, ["changes states"]),
        (lambda: netc.compile("model wide(x: f64[2]) { return y = x }", device=DEVICE).jax(), netc.Error, ["64 bits"]),
    ]:
        with raises(kind, *words):
            call()
    pick = netc.compile("model pick(i: i32[2]) { return y = tensor([1.0, 2, 3])[i] }", device=DEVICE).jax()
    same(jax.jit(pick)(jnp.asarray([2, 0], jnp.int32)).tolist(), [3, 1])
    with raises(Exception, "index of gather: 3", "outside"):  # found while it runs
        jax.block_until_ready(jax.jit(pick)(jnp.asarray([2, 3], jnp.int32)))
    compiled = jax.jit(pick).lower(jnp.asarray([2, 0], jnp.int32)).compile()
    del pick
    jax.clear_caches()
    gc.collect()
    with raises(Exception, "no longer exists"):
        jax.block_until_ready(compiled(jnp.asarray([2, 0], jnp.int32)))


run(globals())
