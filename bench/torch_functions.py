"""Entries as functions in PyTorch on a GPU: right, in stream order, what a call costs, and a module trained
beside PyTorch's own. python3 bench/torch_functions.py [cuda:0] [seconds] [graph: only whether torch's CUDA graphs take it]"""

import sys
import time

import netc
import torch
from torch.nn import functional as F

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
BEGIN, LIMIT = time.monotonic(), float(sys.argv[2]) if len(sys.argv) > 2 else 90
CUDA = DEVICE.startswith("cuda")
FOUR = "model four(a: f32[4], b: f32[4], c: f32[4], d: f32[4]) { return y = a + b + c + d }"
BLOCK = """
use nn
dim batch = 64
dim n = 64
model block(x: f32[batch, n]) { return y = x + (linear(gelu(linear(layer_norm(x) as norm, 4 * n) as up), n) as down) }
"""


def own(p, x):
    h = F.layer_norm(x, x.shape[-1:], p["norm.weight"], p["norm.bias"])
    return x + F.linear(F.gelu(F.linear(h, p["up.weight"], p["up.bias"])), p["down.weight"], p["down.bias"])


def wait():
    if CUDA:
        torch.cuda.synchronize()


def error(got, want):
    return float((got - want).detach().abs().max() / want.detach().abs().max().clamp(min=1))


def gradients(batch, n):
    m = netc.compile(BLOCK, device=DEVICE, defines={"batch": batch, "n": n})
    net, x = m.module(), torch.randn(batch, n, device=DEVICE)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    p = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
    weight = torch.randn(batch, n, device=DEVICE)
    y, z = net(mine), own(p, theirs)
    (y * weight).sum().backward(), (z * weight).sum().backward()
    worst = max(error(a.grad, b.grad) for a, b in [(mine, theirs), *zip(net.parameters(), p.values())])
    print(f"gradients, {batch} x {n}: output {error(y, z):.1e}, gradients {worst:.1e} beside PyTorch's"
          f"{'' if worst < 1e-5 else ': MORE THAN 1e-5'}", flush=True)


def stream_order():
    f = netc.compile("model more(x: f32[1048576]) { return y = x + 1 }", device=DEVICE).torch()
    big, wrong = torch.randn(4096, 4096, device=DEVICE), 0
    for i in range(20):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.zeros(1048576, device=DEVICE)
            for _ in range(4):
                big @ big  # what comes behind is late
            x += i
            y = f(x)
            x.fill_(-1)
            wrong += int((y != i + 1).sum())
    print(f"stream order: {wrong} wrong elements in 20 calls on streams of their own", flush=True)


def each(f, calls=3000, rounds=5):
    """(µs a call, µs with the device's end)"""
    for _ in range(50):
        f()
    least = [1.0, 1.0]
    for _ in range(rounds):
        wait()
        begin = time.perf_counter()
        for _ in range(calls):
            f()
        least[0] = min(least[0], (time.perf_counter() - begin) / calls)
        wait()
        begin = time.perf_counter()
        for _ in range(calls // 4):
            f()
            wait()
        least[1] = min(least[1], (time.perf_counter() - begin) / (calls // 4))
    return f"{least[0] * 1e6:.2f} us a call, {least[1] * 1e6:.2f} with its end waited for"


def triton_add():
    import triton
    import triton.language as tl

    @triton.jit
    def add(a, b, c, d, y):
        i = tl.arange(0, 4)
        tl.store(y + i, tl.load(a + i) + tl.load(b + i) + tl.load(c + i) + tl.load(d + i))
    return lambda a, b, c, d, y: add[(1,)](a, b, c, d, y)


def calls():
    m = netc.compile(FOUR, device=DEVICE)
    e, f = m.entry(), m.torch()
    four = [torch.ones(4, device=DEVICE) for _ in range(4)]
    place = torch.empty(4, device=DEVICE)
    into = {"y": place}
    print("entry, into a place of torch's:", each(lambda: e(*four, out=into)), flush=True)
    print("m.torch:", each(lambda: f(*four)), flush=True)
    leaf = [four[0].clone().requires_grad_(), *four[1:]]
    print("m.torch, a gradient wanted:", each(lambda: f(*leaf)), flush=True)
    print("torch eager, a + b + c + d:", each(lambda: four[0] + four[1] + four[2] + four[3]), flush=True)
    compiled = torch.compile(lambda a, b, c, d: a + b + c + d)
    print("torch.compile:", each(lambda: compiled(*four)), flush=True)
    if CUDA:
        add = triton_add()
        print("Triton's launch:", each(lambda: add(*four, place)), flush=True)


def training(batch, n, steps=100):
    m = netc.compile(BLOCK, device=DEVICE, defines={"batch": batch, "n": n})
    x = torch.randn(batch, n, device=DEVICE)
    goal = torch.randn(batch, n, device=DEVICE)
    net = m.module()
    begin = {k: v.detach().clone() for k, v in net.named_parameters()}

    def train(call, p):
        optimizer = torch.optim.AdamW(p, lr=1e-3, fused=CUDA)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = (call(x) - goal).square().mean()
            loss.backward()
            optimizer.step()
            return loss
        first = [float(step().detach()) for _ in range(steps)]
        wait()
        t = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        return first, (time.perf_counter() - t) / steps * 1e6
    ways = {"netc's module": (net, net.parameters())}
    for name, wrap in (("PyTorch", lambda g: g), ("torch.compile", torch.compile)):
        p = {k: v.clone().requires_grad_() for k, v in begin.items()}
        ways[name] = (wrap(lambda x, p=p: own(p, x)), p.values())
    for name, (call, p) in ways.items():
        losses, us = train(call, list(p))
        print(f"trained {batch} x {n}, {name}: loss {losses[0]:.6f} to {losses[-1]:.6f}, {us:.0f} us a step", flush=True)
        if time.monotonic() - BEGIN > LIMIT:
            return print("out of time")


def captured():
    m = netc.compile(BLOCK, device=DEVICE)
    net, x = m.module(), torch.randn(64, 64, device=DEVICE)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # what is done once is done before
        for _ in range(4):
            net(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    for what, step in (("forward", lambda: net(x).detach() * 2), ("forward and backward", lambda: net(x).sum().backward())):
        net.zero_grad(set_to_none=True)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = step()
            x.copy_(torch.randn(64, 64, device=DEVICE))
            graph.replay()
            wait()
            got = [y] if y is not None else [p.grad.clone() for p in net.parameters()]
            net.zero_grad(set_to_none=True)
            y = step()
            want = [y] if y is not None else [p.grad for p in net.parameters()]
            print(f"captured, {what}: replayed with {max(map(error, got, want)):.1e} difference", flush=True)
        except Exception as e:
            print(f"captured, {what}: {type(e).__name__} {str(e)[:300]}", flush=True)
            return


if sys.argv[3:] == ["graph"]:
    captured()
    sys.exit()
print(netc.compile(FOUR, device=DEVICE).device, "torch", torch.__version__, flush=True)
gradients(64, 64)
gradients(4096 if CUDA else 256, 1024 if CUDA else 128)
if CUDA:
    stream_order()
calls()
training(64, 64)
if time.monotonic() - BEGIN < LIMIT:
    training(8192 if CUDA else 256, 1024 if CUDA else 128)
