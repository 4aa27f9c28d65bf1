#!/usr/bin/env python3
"""The linear layers of bench/kernels.c in PyTorch, compiled.

usage: linear_torch.py [--mode MODE]... [NAME-PART...]
MODE: a mode of torch.compile (default, max-autotune-no-cudagraphs), or eager; several take turns.
Prints one JSON object a measurement: name, mode, seconds, tflop_per_s.
Seconds: calls captured in one CUDA graph, median of its replays by CUDA events, over the calls. All
tensors are bf16, products accumulate in f32 (reductions in bf16 are forbidden, as in netc).
"""
import os
import time

import torch
import torch.nn.functional as F

from torch_times import arguments, graphed, report

dev = "cuda"
ROWS = int(os.environ.get("ROWS", 32768))
SHAPES = ((768, 768), (768, 2304), (768, 3072), (3072, 768))
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


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

    def call():
        if "backward" not in name:
            return g(*args)
        leaves, dy = args
        return torch.autograd.grad(g(*leaves), leaves, dy)

    def rested():  # as in bench/kernels.c
        call()
        torch.cuda.synchronize()
        time.sleep(1)
        return graphed(call, fill=8)
    report(name, mode, rested, lambda s: {"tflop_per_s": flops / s / 1e12})


modes, words = arguments()
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
