#!/usr/bin/env python3
"""The linear layers of bench/kernels.c in PyTorch, compiled.

usage: linear_torch.py [--mode MODE]... [NAME-PART...]
MODE: a mode of torch.compile (default, max-autotune-no-cudagraphs), or eager; several take turns.
Prints one JSON object a measurement: name, mode, seconds, tflop_per_s.
Seconds: calls captured in one CUDA graph, median of its replays by CUDA events, over the calls. All
tensors are bf16, products accumulate in f32 (reductions in bf16 are forbidden, as in netc).
"""
import json
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
dev = "cuda"
ROWS = int(os.environ.get("ROWS", 32768))
SHAPES = ((768, 768), (768, 2304), (768, 3072), (3072, 768))
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def graphed(fn, n=25):
    """Median seconds of a call."""
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            fn()
    torch.cuda.current_stream().wait_stream(s)
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    fn()
    end.record()
    torch.cuda.synchronize()
    inner = max(2, min(50, int(8 / max(begin.elapsed_time(end), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            fn()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(n):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in times)[n // 2] / inner / 1e3


def linear(x, w, b):
    return F.linear(x, w, b)


def linear_gelu(x, w, b):  # the tanh form
    return F.gelu(F.linear(x, w, b), approximate="tanh")


def linear_gelu_kept(x, w, b):  # with what its backward reads
    z = F.linear(x, w, b)
    return z, F.gelu(z, approximate="tanh")


def measure(name, mode, flops, f, args):
    torch._dynamo.reset()
    g = f if mode == "eager" else torch.compile(f, mode=None if mode == "default" else mode)
    try:
        seconds = graphed(lambda: g(*args)) if "backward" not in name else None
        if seconds is None:
            leaves, dy = args
            seconds = graphed(lambda: torch.autograd.grad(g(*leaves), leaves, dy))
    except Exception as e:  # a peer that fails is left out, with its reason
        print(f"{name} {mode}: {str(e)[:200]}", file=sys.stderr)
        torch.cuda.synchronize()
        return
    print(json.dumps({"name": name, "mode": mode, "seconds": seconds, "tflop_per_s": flops / seconds / 1e12,
                      "peer": "torch", "version": torch.__version__}), flush=True)


modes, words, given = [], [], sys.argv[1:]
while given:
    a = given.pop(0)
    if a == "--mode":
        modes.append(given.pop(0))
    else:
        words.append(a)
for k, n in SHAPES:
    def random(*size, scale=1.0):
        return (torch.randn(*size, device=dev) * scale).to(torch.bfloat16)

    x, w, b, dy = random(ROWS, k), random(n, k, scale=k**-0.5), random(n), random(ROWS, n)
    leaves = [v.clone().requires_grad_() for v in (x, w, b)]
    flops = 2 * ROWS * k * n
    size = f" {ROWS}x{k}x{n}"
    for name, times, f, args in (
        ("linear" + size, 1, linear, (x, w, b)),
        ("linear + gelu" + size, 1, linear_gelu_kept, (x, w, b)),
        ("linear forward + backward" + size, 3, linear, (leaves, dy)),
        ("linear + gelu forward + backward" + size, 3, linear_gelu, (leaves, dy)),
    ):
        if not words or any(v in name for v in words):
            for mode in modes or ["default", "max-autotune-no-cudagraphs"]:
                measure(name, mode, times * flops, f, args)
    del x, w, b, dy, leaves
    torch.cuda.empty_cache()
