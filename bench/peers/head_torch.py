#!/usr/bin/env python3
"""bench/kernels/head.net in PyTorch: logits whole, as torch.compile makes them, and by parts of 4096 rows whose gradients
are made at once, so that logits are never whole (the way of Liger Kernel). Seconds and peak memory as JSON lines."""
import torch
import torch.nn.functional as F
from torch_times import graphed, report

ROWS, WIDTH, VOCAB, PART = 32768, 768, 50304, 4096
w = (torch.randn(VOCAB, WIDTH, device="cuda") * 0.02).requires_grad_()
gain = torch.ones(WIDTH, device="cuda", requires_grad=True)
x = torch.randn(ROWS, WIDTH, device="cuda").bfloat16()
y = torch.randint(0, VOCAB, (ROWS,), device="cuda")


def loss_of(x, y, w, gain):
    with torch.autocast("cuda", torch.bfloat16):
        return F.cross_entropy((x.float() * gain) @ w.t(), y)


def update(grads):
    with torch.no_grad():
        torch._foreach_add_([w, gain], grads, alpha=-0.1)


def whole(loss):
    return lambda: update(torch.autograd.grad(loss(x, y, w, gain), [w, gain]))


def parts(loss):
    def step():
        total = None
        for at in range(0, ROWS, PART):
            part = torch.autograd.grad(loss(x[at:at + PART], y[at:at + PART], w, gain), [w, gain])
            total = part if total is None else [a + b for a, b in zip(total, part)]
        update([g * (PART / ROWS) for g in total])
    return step


def measured(step):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    seconds = graphed(step, 9, 50)
    memory["peak_gb"] = round((torch.cuda.max_memory_allocated() - before) / 1e9, 2)
    return seconds


memory = {}
compiled = torch.compile(loss_of)
for name, step in (("eager", whole(loss_of)), ("compile", whole(compiled)), ("compile, parts", parts(compiled))):
    report("head", name, lambda: measured(step), lambda s: memory)
