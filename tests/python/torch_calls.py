"""Entries in PyTorch: gradients beside its own, modules, torch.compile; on TEST_DEVICE, else the CPU."""

import copy
import os

import netc
import numpy as np
import torch
from harness import check, raises, run, same
from nets import BLOCK, STATEFUL
from torch.nn import functional as F

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
torch.set_default_device(DEVICE)
torch.manual_seed(1)
m = netc.compile(BLOCK, name="block.net", device=DEVICE)
NAMES = [n for n in m.state if "." in n]
X, LABEL = torch.randn(8, 64), torch.randint(0, 4, (8,), dtype=torch.uint8)


def parameters():
    return {n: torch.tensor(m.state[n], requires_grad=True) for n in NAMES}


def own(p, x, label):
    """The block in PyTorch."""
    h = F.layer_norm(x, (64,), p["norm.weight"], p["norm.bias"])
    h = x + F.linear(F.gelu(F.linear(h, p["up.weight"], p["up.bias"])), p["down.weight"], p["down.bias"])
    logits = F.linear(h, p["head.weight"], p["head.bias"])
    return F.cross_entropy(logits, label.long()), logits, logits.argmax(1)


def near(got, want, what="", tolerance=1e-5):
    got, want = got.detach(), want.detach()
    scale = max(1.0, float(want.abs().max()))
    check(got.shape == want.shape and float((got - want).abs().max()) <= tolerance * scale, (what, got, want))


def test_transforms():
    """torch.func: gradients of single examples, ensembles, one vmap in another, Jacobians."""
    from torch.func import functional_call, grad, jacrev, vjp, vmap
    f = m.torch(params="*")
    p = {n: torch.tensor(m.state[n]) for n in NAMES}
    ps = {n: torch.stack([v, v * 0.9, v + 0.1]) for n, v in p.items()}
    xs, labels = torch.stack([X, X + 1, X * 2]), torch.stack([LABEL, LABEL.flip(0), LABEL])
    mine, theirs = (lambda p, x, l: f(x, l, params=p).loss), (lambda p, x, l: own(p, x, l)[0])

    def same_in_both(transform, *given):
        a, b = transform(mine)(*given), transform(theirs)(*given)
        for one, other in zip(torch.utils._pytree.tree_leaves(a), torch.utils._pytree.tree_leaves(b), strict=True):
            near(one, other, tolerance=4e-5)  # (each is up to 1e-5 from the gradient in f64)
    same_in_both(grad, p, X, LABEL)
    same_in_both(lambda g: vmap(g, (None, 0, 0)), p, xs, labels)
    same_in_both(lambda g: vmap(grad(g), (None, 0, 0)), p, xs, labels)
    same_in_both(lambda g: vmap(grad(g, 1), (0, None, None)), ps, X, LABEL)
    same_in_both(lambda g: vmap(grad(g), (0, 0, None)), ps, xs, LABEL)
    same_in_both(lambda g: vmap(lambda x: g(p, x.T, LABEL), -1), xs.permute(2, 1, 0))
    same_in_both(lambda g: vmap(vmap(grad(g), (0, None, None)), (None, 0, 0)), ps, xs, labels)
    same_in_both(lambda g: grad(lambda p: vmap(g, (None, 0, 0))(p, xs, labels).pow(2).sum()), p)  # what all calls share
    near(jacrev(lambda x: f(x, LABEL, params=p).logits.sum(0))(X), jacrev(lambda x: own(p, x, LABEL)[1].sum(0))(X))
    value, back = vjp(lambda x: f(x, LABEL, params=p).logits, X)
    near(value, own(p, X, LABEL)[1])
    near(back(torch.ones_like(value))[0], vjp(lambda x: own(p, x, LABEL)[1], X)[1](torch.ones_like(value))[0])
    same(vmap(lambda x: f(x, LABEL, params=p).best)(xs).tolist(), [own(p, x, LABEL)[2].tolist() for x in xs])
    module = m.module().eval()
    called = vmap(lambda p, x: functional_call(module, p, (x, LABEL)).loss, (0, 0))(ps, xs)
    near(called, torch.stack([own({n: v[i] for n, v in ps.items()}, xs[i], LABEL)[0] for i in range(3)]))
    with raises(netc.Error, "'block' cannot be differentiated twice by torch.func"):
        grad(lambda x: grad(lambda x: f(x, LABEL, params=p).loss)(x).pow(2).sum())(X)
    with raises(netc.Error, "'drops' changes 'calls', so it cannot be computed for several calls at once"):
        vmap(netc.compile(STATEFUL, device=DEVICE).torch(training=True))(torch.ones(2, 64, 8))


def test_function():
    f = m.torch(params="*")
    check("block(x: f32[8, 64], label: u8[8], " in repr(f) and "best: i32[8]" in repr(f), repr(f))
    same([k for k, _, _ in f._function.kept], sorted(k for k, _, _ in f._function.kept if k.startswith("@kept.")))
    same(len(f._function.kept), 3)  # what the three layers give
    p, q = parameters(), parameters()
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    got, want = f(x, LABEL, params=p), own(q, y, LABEL)
    same(type(got).__name__, "block")
    near(got.loss, want[0]), near(got.logits, want[1])
    same(got.best.tolist(), want[2].tolist())
    check(got.loss.requires_grad and not got.best.requires_grad)
    # Of two outputs at once, one through an expanded cotangent; then of one alone.
    for pick in (lambda o: o[0] + (o[1].sum(1) ** 2).mean(), lambda o: o[0], lambda o: o[1].sum()):
        a = torch.autograd.grad(pick(f(x, label=LABEL, params=p)), [x, *p.values()], allow_unused=True)
        b = torch.autograd.grad(pick(own(q, y, LABEL)), [y, *q.values()], allow_unused=True)
        for name, one, other in zip(["x", *NAMES], a, b):
            near(one, other, name)
    # Gradients of x alone are those of another entry; with none wanted there is none.
    plain = m.torch()
    x.grad = None
    plain(x=x, label=LABEL).loss.backward()
    own({n: v.detach() for n, v in q.items()}, y, LABEL)[0].backward()
    near(x.grad, y.grad)
    check(not plain(X, LABEL).loss.requires_grad)
    with torch.no_grad():
        check(not f(x, LABEL, params=p).loss.requires_grad)
    one = m.torch("block", outputs="logits")(X)  # one output: a tensor, and the inputs that it needs
    near(one, want[1])
    near(m.torch(outputs=["logits"])(X.t().contiguous().t()), want[1])  # made dense
    near(m.torch(outputs=["logits"])(torch._neg_view(-X)), want[1])  # negated when it is read


def test_wrong():
    f = m.torch(params="head.*")
    p = {n: v for n, v in parameters().items() if n.startswith("head")}
    for call, kind, words in [
        (lambda: f(X.double(), LABEL, params=p), netc.Error, ["'x' is f32[8, 64]", "f64[8, 64]"]),
        (lambda: f(X[:4], LABEL, params=p), netc.Error, ["'x' is f32[8, 64]", "f32[4, 64]"]),
        (lambda: f(X.to("meta"), LABEL, params=p), netc.Error, ["'x' is on meta", f"runs on {DEVICE}"]),
        (lambda: f(X, LABEL), TypeError, ["parameter 'head.weight'"]),
        (lambda: f(X, LABEL, params={**p, "up.bias": X}), TypeError, ["no parameter 'up.bias'", "head.weight"]),
        (lambda: f(X, params=p), TypeError, ["no value for 'label'"]),
        (lambda: f(X, LABEL, X, params=p), TypeError, ["too many"]),
        (lambda: f(X, LABEL, x=X, params=p), TypeError, ["'x'", "twice"]),
        (lambda: f(X.cpu().numpy(), LABEL, params=p), TypeError, ["ndarray"]),
        (lambda: m.torch(params="haed.weight"), netc.Error, ["no parameter 'haed.weight'", "did you mean 'head.weight'"]),
        (lambda: m.torch(outputs="lgits"), netc.Error, ["no output 'lgits'"]),
        (lambda: m.torch("blok"), netc.Error, ["no entry 'blok'"]),
    ]:
        with raises(kind, *words):
            call()
    loss = f(X, LABEL, params=p).loss
    with torch.no_grad():
        p["head.weight"].add_(1)
    with raises(RuntimeError, "modified by an inplace operation"):
        loss.backward()
    loss = f(X, LABEL, params=p).loss
    m.state["up.bias"] = m.state["up.bias"]
    with raises(netc.Error, "changed between a call"):
        loss.backward()
    integers = netc.compile("model pick(i: i32[2] in 0..3, x: f32[3]) { return n = argmax(x) + i }", device=DEVICE)
    check(not integers.torch()(torch.tensor([1, 2], dtype=torch.int32), torch.ones(3, requires_grad=True)).requires_grad)


def test_second():
    """Gradients of gradients."""
    f, p = m.torch(params="*"), parameters()
    x = X.clone().requires_grad_()

    def penalized(g):  # as a penalty on gradients is trained
        out = g(x, LABEL)
        loss = out[0] + (out[1] ** 2).mean()
        first = torch.autograd.grad(loss, [x, *p.values()], create_graph=True)
        return torch.autograd.grad(loss + sum((d * d).sum() for d in first), [x, *p.values()])
    theirs = lambda x, label: own(p, x, label)
    for name, a, b in zip(["x", *NAMES], penalized(lambda x, label: f(x, LABEL, params=p)), penalized(theirs)):
        near(a, b, name, 1e-4)
    v = torch.randn_like(X)
    for product in (torch.autograd.functional.hvp, torch.autograd.functional.vhp):
        near(*[product(lambda x: g(x, LABEL)[0], X, v)[1] for g in (lambda x, label: f(x, label, params=p), theirs)])
    smooth = netc.compile("""
        model smooth(x: f64[3, 4], w: f64[5, 4], c: f64[2], i: i32[3] in 0..5) {
            h = tanh(matmul(x, transpose(w)))
            return y = h * h * h, z = sum(h) * c, line = sum(x * x, 1), at = i + 1
        }""", device=DEVICE).torch()
    a, i = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (5, 4), (2,))], torch.arange(3, dtype=torch.int32)
    check(torch.autograd.gradgradcheck(lambda *a: smooth(*a, i)[:3], a))
    check(torch.autograd.gradgradcheck(lambda c: smooth(a[0].detach(), a[1].detach(), c, i).z, a[2:]))
    # By the vector of a product, as often as one likes; by anything else not three times.
    u, c, again = torch.ones(3, 4, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64), []
    for g in (lambda x: smooth(x, *a[1:], i).y, lambda x: torch.tanh(x @ a[1].T) ** 3):
        first, = torch.autograd.grad(g(a[0]).sum(), a[0], create_graph=True)
        product, = torch.autograd.grad(first, a[0], u, create_graph=True)
        again.append((product, *torch.autograd.grad((product * c).sum(), u, retain_graph=True)))
    near(again[0][0], again[1][0]), near(again[0][1], again[1][1])
    with raises(netc.Error, "'smooth' cannot be differentiated three times"):
        torch.autograd.grad(again[0][0].sum(), a[0])
    d = netc.compile("use nn\nmodel d(x: f32[64]) { return y = dropout(x * x * x, 0.5) }", device=DEVICE).torch(training=True)
    ones = torch.ones(64, requires_grad=True)
    y = d(ones)
    first, = torch.autograd.grad(y.sum(), ones, create_graph=True)
    d(ones)  # other draws
    check(torch.equal(torch.autograd.grad(first.sum(), ones)[0], 6 * y.detach()))
    # In what torch.compile made a gradient is an op without one of its own.
    whole = torch.compile(lambda x: f(x, LABEL, params=p).loss * 2, backend="aot_eager", fullgraph=True)
    with raises(RuntimeError, "double backward"):
        torch.autograd.grad(torch.autograd.grad(whole(x), x, create_graph=True)[0].sum(), x)


def test_states():
    """Gradients are of the draws and the states that their call saw."""
    d = netc.compile(STATEFUL, device=DEVICE, seed=7)
    f = d.torch(training=True)
    ones = torch.ones(64, 8, requires_grad=True)
    first, second = f(ones), f(ones)
    check(set(first.unique().tolist()) == {0, 4} and set(second.unique().tolist()) == {0, 6})  # calls <- comes first
    check(not torch.equal(first > 0, second > 0))
    check(not torch.equal(first, netc.compile(STATEFUL, device=DEVICE, seed=8).torch(training=True)(ones)))
    check(torch.equal(first, netc.compile(STATEFUL, device=DEVICE, seed=7).torch(training=True)(ones)))
    for y in (second, first):
        g, = torch.autograd.grad(y.sum(), ones)
        check(torch.equal(g, y.detach()))
    check(torch.equal(d.torch()(ones).unique(), torch.tensor([4.0])))  # not training: nothing drops


class Own(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.values = torch.nn.ParameterList([torch.nn.Parameter(v.detach().clone()) for v in values.values()])
        self.names = list(values)

    def forward(self, x, label):
        return own(dict(zip(self.names, self.values)), x, label)[0]


def test_module():
    block = m.module(outputs=["loss"])
    same(sorted(block.state_dict()), sorted(NAMES))
    check("block(x: f32[8, 64]" in repr(block))
    beside = Own(dict(block.named_parameters()))
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-2)
    losses, r = [], np.random.default_rng(3)
    centres = torch.tensor(r.normal(size=(4, 64)), dtype=torch.float32)
    for step in range(100):
        label = torch.tensor(r.integers(0, 4, 8), dtype=torch.uint8)
        x = centres[label.long()] + torch.tensor(r.normal(size=(8, 64)), dtype=torch.float32)
        optimizer.zero_grad()
        loss = block(x, label)
        loss.backward()
        with torch.no_grad():  # PyTorch's own gradients at these parameters
            for mine, theirs in zip(block.parameters(), beside.parameters()):
                theirs.copy_(mine)
        beside.zero_grad()
        beside(x, label).backward()
        for mine, theirs in zip(block.parameters(), beside.parameters()):
            if float((mine.grad - theirs.grad).abs().max()) > 1e-5 * max(1.0, float(theirs.grad.abs().max())):
                check(False, f"step {step}: {mine.grad} {theirs.grad}")
        optimizer.step()
        losses.append(float(loss.detach()))
    check(np.mean(losses[-10:]) < np.mean(losses[:10]) / 4, losses)
    before = block(X, LABEL)
    again = m.module(outputs=["loss"])
    again.load_state_dict(block.state_dict())
    check(torch.equal(again.eval()(X, LABEL), before))
    m.load_state_dict({n: v for n, v in block.state_dict().items()}, strict=False)  # and back into the model
    near(torch.as_tensor(m(x=X, label=LABEL)["loss"]), before.detach())
    within = torch.nn.Sequential(torch.nn.Linear(64, 64), m.module(outputs="logits"))
    within(X).sum().backward()
    check(within[0].weight.grad.abs().sum() > 0)
    twin = copy.deepcopy(again)  # parameters and states of its own
    with torch.no_grad():
        for p in twin.parameters():
            p.zero_()
    check(torch.equal(again(X, LABEL), before) and not torch.equal(twin(X, LABEL), before))
    check(copy.deepcopy(torch.nn.ModuleDict({"a": twin}))["a"]._model is not m)
    torch.nn.utils.parametrizations.weight_norm(again.get_submodule("up"), "weight")  # the weight is computed
    near(again(X, LABEL).detach(), before.detach())
    again(X, LABEL).backward()
    check(again.get_parameter("up.parametrizations.weight.original0").grad.abs().sum() > 0)
    with raises(netc.Error, "'x' is f32"):
        block.double()(X.double(), LABEL)


def test_compiled():
    """torch.compile takes it whole, forward and backward."""
    torch._dynamo.reset()
    block = m.module(outputs=["loss", "best"])
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()

    def step(x, label):
        out = block(torch.tanh(x), label)
        return out.loss * 2
    whole = torch.compile(step, backend="aot_eager", fullgraph=True)
    whole(x, LABEL).backward()
    grads = [p.grad for p in block.parameters()]
    block.zero_grad()
    step(y, LABEL).backward()
    near(x.grad, y.grad)
    for g, p in zip(grads, block.parameters()):
        near(g, p.grad)
    f = m.torch(outputs="logits")
    inferred = torch.compile(lambda x: f(x) + 1, backend="aot_eager", fullgraph=True)
    near(inferred(X), f(X) + 1)
    with raises(Exception, "is f32[8, 64]"):
        inferred(X[:3])
    # What changes states is not hidden in a graph: the graph breaks there.
    d = netc.compile(STATEFUL, device=DEVICE).torch(training=True)
    ones = torch.ones(64, 8, requires_grad=True)
    y = torch.compile(lambda x: d(x) * 2, backend="aot_eager")(ones)
    g, = torch.autograd.grad(y.sum(), ones)
    check(torch.equal(g, y.detach()))


def test_many():
    """More parameters than an op of torch has arguments (64), with gradients of all."""
    torch._dynamo.reset()
    deep = netc.compile("""
use nn
model deep(x: f32[4, 8]) {
    for i in 0..40 { x = x + 0.1 * tanh(linear(x, 8) as layer[i]) }
    return x
}
""", device=DEVICE).module()
    check(len(list(deep.parameters())) == 80)
    x = torch.randn(4, 8)
    deep(x).square().sum().backward()
    grads = [p.grad for p in deep.parameters()]
    deep.zero_grad()
    torch.compile(lambda x: deep(x).square().sum(), backend="aot_eager", fullgraph=True)(x).backward()
    h, own = x, [p.detach().requires_grad_() for p in deep.parameters()]
    for weight, bias in zip(own[::2], own[1::2]):
        h = h + 0.1 * torch.tanh(F.linear(h, weight, bias))
    h.square().sum().backward()
    for g, p, o in zip(grads, deep.parameters(), own):
        near(g, o.grad)
        near(p.grad, o.grad)


run(globals())
