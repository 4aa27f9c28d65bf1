"""Calls inside CUDA graphs of PyTorch: replayed with other inputs, beside the same calls outside. Needs a GPU;
TIMES=1 says what replays take, too."""

import os
import time

import netc
from harness import check, raises, run, same, skip
from nets import BLOCK, STATEFUL

try:
    import torch
    CUDA = torch.cuda.is_available()
except ImportError:
    CUDA = False
DEVICE = "cuda:0"


def warm(call, times=3):
    """As PyTorch asks for before a capture: on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(times):
            call()
    torch.cuda.current_stream().wait_stream(stream)


def captured(call):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    return graph, out


def parameters(m, grad=True):
    return {n: torch.tensor(m.state[n], requires_grad=grad) for n in m.state if "." in n}


def equal(got, want, what=""):
    check(got.shape == want.shape and torch.equal(got, want), (what, float((got - want).abs().max())))


def test_function():
    """Forward and backward in one graph, the parameters being arguments."""
    m = netc.compile(BLOCK, name="block.net", device=DEVICE)
    f, p = m.torch(params="*"), parameters(m)
    x, label = torch.randn(8, 64, requires_grad=True), torch.randint(0, 4, (8,), dtype=torch.uint8)

    def call(x=x, label=label, p=p):
        out = f(x, label, params=p)
        return (out.loss, out.logits, out.best, *torch.autograd.grad(out.loss + (out.logits ** 2).mean(), [x, *p.values()]))
    warm(call)
    graph, static = captured(call)
    for k in range(5):
        with torch.no_grad():
            x.copy_(torch.randn(8, 64)), label.copy_(torch.randint(0, 4, (8,), dtype=torch.uint8))
            for v in p.values():
                v.add_(0.1 * torch.randn_like(v))
        graph.replay()
        got = [t.detach().clone() for t in static]
        q = {n: v.detach().clone().requires_grad_() for n, v in p.items()}
        want = call(x.detach().clone().requires_grad_(), label.clone(), q)
        for i, (one, other) in enumerate(zip(got, want)):
            equal(one, other.detach(), (k, i))
    # Not differentiated: the entry without what gradients want.
    with torch.no_grad():
        def plain():
            return f(x, label, params=p).logits
        warm(plain)
        graph, static = captured(plain)
        x.copy_(torch.randn(8, 64))
        graph.replay()
        equal(static.clone(), plain())


def test_training():
    """A whole step of training, netc's module in the midst of PyTorch's, as one graph."""
    m = netc.compile(BLOCK.replace("logits, best", "logits, h, best"), name="block.net", device=DEVICE)
    x, y = torch.randn(8, 16), torch.randn(8, 1)

    def made():
        torch.manual_seed(2)
        first, last, block = torch.nn.Linear(16, 64), torch.nn.Linear(64, 1), m.module("block", outputs="h")
        net = torch.nn.ModuleList([first, block, last])
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, capturable=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = (last(block(first(x))) - y).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()
        return net, step
    (net, step), (other, plain) = made(), made()
    warm(step), warm(plain)
    graph, loss = captured(step)
    for k in range(20):
        x.copy_(torch.randn(8, 16)), y.copy_(x.sum(1, keepdim=True))
        graph.replay()
        got, want = float(loss), float(plain())
        check(abs(got - want) <= 1e-5 * max(1, want), (k, got, want))
    for (name, one), two in zip(net.named_parameters(), other.parameters()):
        check(torch.allclose(one, two, atol=1e-4), name)
    if os.environ.get("TIMES"):
        for name, call in (("graph", graph.replay), ("one by one", plain)):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(1000):
                call()
            torch.cuda.synchronize()
            print(f"{name}: {(time.perf_counter() - begin) * 1e3:.1f} us a step")


def test_states():
    """Draws go on from replay to replay; parameters of the model are those of the moment."""
    models = [netc.compile(STATEFUL, device=DEVICE, seed=3) for _ in range(2)]
    f, plain = (m.torch(training=True) for m in models)
    x, seen = torch.ones(64, 8), []
    warm(lambda: f(x), 1), plain(x)
    graph, y = captured(lambda: f(x))
    for k in range(6):
        if k == 3:
            for m in models:
                m.state["calls"] = 100
        if k == 4:
            equal(f(x), plain(x), "between replays")
        graph.replay()
        equal(y.clone(), plain(x), k)
        seen.append(y.clone())
        same(float(models[0].state["calls"]), float(models[1].state["calls"]))
    check(not any(torch.equal(a != 0, b != 0) for a, b in zip(seen, seen[1:])))
    m = netc.compile("use nn\nmodel line(x: f32[4, 8]) { return y = linear(x, 3) as fc }", device=DEVICE)
    f, x = m.torch(), torch.randn(4, 8)
    warm(lambda: f(x), 1)
    graph, y = captured(lambda: f(x))
    m.state["fc.weight"] = 2 * m.state["fc.weight"]
    graph.replay()
    equal(y.clone(), f(x))


def test_refused():
    """What cannot be part of a graph says what to do, and PyTorch goes on."""
    texts = {how: f"use nn\nmodel words(t: i32[8]{how}) {{ return y = embedding(t, 10, 16) as table }}" for how in ("", " in 0..10")}
    looks, trusts = (netc.compile(text, device=DEVICE).torch() for text in texts.values())
    t = torch.randint(0, 10, (8,), dtype=torch.int32)
    warm(lambda: (looks(t), trusts(t)), 1)
    with raises(netc.Error, "checks its values", "in 0..10"):
        captured(lambda: looks(t))
    graph, y = captured(lambda: trusts(t))
    t.copy_(torch.randint(0, 10, (8,), dtype=torch.int32))
    graph.replay()
    equal(y.clone(), looks(t))
    m = netc.compile(BLOCK, device=DEVICE)
    f, x, label = m.torch(outputs="logits"), torch.randn(8, 64, requires_grad=True), torch.zeros(8, dtype=torch.uint8)
    with raises(netc.Error, "has not run yet", "run it once"):
        captured(lambda: f(x))
    f(x)
    with raises(netc.Error, "gradients", "would be compiled now"):
        captured(lambda: f(x).sum().backward())
    m(x=x.detach(), label=label)
    host = x.detach().cpu().numpy()
    with raises(netc.Error, "lies in the host's memory"):
        captured(lambda: m(x=host, label=label, out={}))
    x.grad = None
    f(x).sum().backward()
    check(float(x.grad.abs().sum()) > 0)


def test_compiled():
    """torch.compile with its CUDA graphs."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return skip("no Triton: torch.compile's CUDA graphs are not tried")
    m = netc.compile(BLOCK, name="block.net", device=DEVICE)
    f, p = m.torch(params="*", outputs="logits"), parameters(m)
    x = torch.randn(8, 64)

    def step(x):
        return torch.tanh(f(x * 2, params=p)).square().mean()
    whole = torch.compile(step, mode="reduce-overhead", fullgraph=True)
    for k in range(6):
        x = torch.randn(8, 64)
        torch.compiler.cudagraph_mark_step_begin()
        got = whole(x)
        grads = [g.clone() for g in torch.autograd.grad(got, list(p.values()))]
        got = got.detach().clone()
        want = step(x)
        check(torch.allclose(got, want, atol=1e-5), (k, got, want))
        for one, other in zip(grads, torch.autograd.grad(want, list(p.values()))):
            check(torch.allclose(one, other, atol=1e-4), k)


if CUDA:
    torch.set_default_device(DEVICE)
    torch.manual_seed(1)
    run(globals())
else:
    for name in [n for n in globals() if n.startswith("test_")]:
        del globals()[name]
    skip("no PyTorch with a GPU: CUDA graphs of PyTorch are not tried")
    run(globals())
