#!/usr/bin/env python3
"""The kernels of bench/kernels.c in PyTorch, eager and compiled, and a copy kernel of 16-byte accesses.

usage: kernels_torch.py [--mode MODE]... [NAME-PART...]
MODE: compile, eager, fused (an optimizer's own kernel); without one all of them.
Prints one JSON object a measurement: name, mode, seconds, gb_per_s (of the bytes that must be moved).
Seconds: calls captured in one CUDA graph, median of its replays by CUDA events, over the calls.
"""
import json
import sys

import torch
import torch.nn.functional as F

from torch_times import arguments, graphed, report

dev = "cuda"
COPY = r"""
extern "C" __global__ void __launch_bounds__(256) copy16(const uint4 *in, uint4 *out, long n)
{
    long stride = (long)gridDim.x * 256;
    long i = (long)blockIdx.x * 256 + threadIdx.x;
    for (; i + 3 * stride < n; i += 4 * stride) {
        uint4 a = __ldcs(in + i), b = __ldcs(in + i + stride), c = __ldcs(in + i + 2 * stride),
              d = __ldcs(in + i + 3 * stride);
        __stcs(out + i, a), __stcs(out + i + stride, b), __stcs(out + i + 2 * stride, c), __stcs(out + i + 3 * stride, d);
    }
    for (; i < n; i += stride) out[i] = in[i];
}
"""


def out(name, mode, nbytes, fn):
    if modes and mode.split(",")[0] not in modes:
        return
    report(name, mode, lambda: graphed(fn), lambda s: {"gb_per_s": nbytes / s / 1e9, "bytes": nbytes})


def both(name, nbytes, f, args):
    if wanted and not any(w in name for w in wanted):
        return
    for mode in ("compile", "eager"):
        torch._dynamo.reset()
        g = torch.compile(f, mode="max-autotune-no-cudagraphs") if mode == "compile" else f
        out(name, mode, nbytes, lambda: g(*args))


def copies(sizes):
    try:
        import cupy
        kernel = cupy.RawKernel(COPY, "copy16")
    except Exception as e:
        return print(f"copy: {e}", file=sys.stderr)
    for nbytes in sizes:  # read and written together
        a = torch.randint(0, 255, (nbytes // 2,), dtype=torch.uint8, device=dev)
        b = torch.empty_like(a)
        best = None
        for blocks in (132 * 8, 132 * 32, (nbytes // 2) // (16 * 4 * 256)):
            def run():
                with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                    kernel((blocks,), (256,), (a.data_ptr(), b.data_ptr(), nbytes // 32))
            seconds = graphed(run)
            assert torch.equal(a, b)
            best = min(best or seconds, seconds)
        print(json.dumps({"name": f"copy {nbytes}", "mode": "16-byte kernel", "seconds": best,
                          "gb_per_s": nbytes / best / 1e9, "bytes": nbytes, "peer": "copy"}), flush=True)
        del a, b


def rows_kernels():
    for m, n in ((131072, 768), (32768, 4096)):
        x, g = (torch.randn(m, n, device=dev, dtype=torch.bfloat16) for _ in range(2))
        w, b = (torch.randn(n, device=dev) for _ in range(2))
        bb = b.to(torch.bfloat16)
        t = 2 * m * n

        def layer(x, w, b):
            return F.layer_norm(x.float(), (n,), w, b).to(torch.bfloat16)

        def rms(x, w):
            return F.rms_norm(x.float(), (n,), w, 1e-5).to(torch.bfloat16)

        def residual(x, g, w, b):
            s = x + g
            return s, layer(s, w, b)

        def act(x, g, b):
            v = x.float()
            return (F.gelu(v + b.float(), approximate="tanh") * g.float() + v).to(torch.bfloat16)

        size = f" {m}x{n}"
        both("negate" + size, 2 * t, torch.neg, (x,))
        both("layer norm" + size, 2 * t, layer, (x, w, b))
        both("rms norm" + size, 2 * t, rms, (x, w))
        both("residual + layer norm" + size, 4 * t, residual, (x, g, w, b))
        both("bias + gelu + mul + add" + size, 3 * t, act, (x, g, bb))
        both("softmax" + size, 2 * t, lambda x: F.softmax(x.float(), -1).to(torch.bfloat16), (x,))
        both("bias gradient" + size, t, lambda g: g.float().sum(0), (g,))
        xr, wr, br = x.clone().requires_grad_(), w.clone().requires_grad_(), b.clone().requires_grad_()
        for name, f, given in (("layer norm", layer, (xr, wr, br)), ("rms norm", rms, (xr, wr))):
            key = f"{name} forward + backward{size}"
            if wanted and not any(v in key for v in wanted):
                continue
            for mode in ("compile", "eager"):
                torch._dynamo.reset()
                h = torch.compile(f) if mode == "compile" else f
                out(key, mode, 5 * t, lambda: torch.autograd.grad(h(*given), given, g))
                if mode == "eager":  # the framework's own kernels on bf16
                    native = (lambda x, w, b: F.layer_norm(x, (n,), w, b)) if name == "layer norm" else \
                        (lambda x, w: F.rms_norm(x, (n,), w, 1e-5))
                    low = [v.detach().to(torch.bfloat16).requires_grad_() for v in given]
                    out(key, "eager, bf16 weights", 5 * t, lambda: torch.autograd.grad(native(*low), low, g))
        del x, g, xr


def loss():
    r, v = 8192, 50304
    z = torch.randn(r, v, device=dev, dtype=torch.bfloat16, requires_grad=True)
    label = torch.randint(0, v, (r,), device=dev)
    key = f"cross entropy with gradient {r}x{v}"
    if wanted and not any(w in key for w in wanted):
        return
    for mode in ("compile", "eager"):
        torch._dynamo.reset()

        def f(z, label):
            return F.cross_entropy(z.float(), label)
        h = torch.compile(f) if mode == "compile" else f
        out(key, mode, 4 * r * v, lambda: torch.autograd.grad(h(z, label), z))


def adamw():
    key = "AdamW 16x7750000"
    if wanted and not any(w in key for w in wanted):
        return
    params = [torch.randn(7_750_000, device=dev, requires_grad=True) for _ in range(16)]
    for p in params:
        p.grad = torch.randn_like(p)
    fused = torch.optim.AdamW(params, fused=True, lr=1e-4, capturable=True)
    out(key, "fused", 28 * 16 * 7_750_000, fused.step)
    foreach = torch.optim.AdamW(params, foreach=True, lr=torch.tensor(1e-4, device=dev), capturable=True)
    foreach.step()
    torch._dynamo.reset()
    out(key, "compile", 28 * 16 * 7_750_000, torch.compile(foreach.step))


def batch_norm():
    key = "batch norm + relu forward + backward 2097152x64"
    if wanted and not any(w in key for w in wanted):
        return
    x = torch.randn(2048, 64, 32, 32, device=dev, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    g = torch.randn_like(x)
    x.requires_grad_()
    for mode in ("compile", "eager"):
        torch._dynamo.reset()
        bn = torch.nn.BatchNorm2d(64).to(dev)

        def f(x):
            return F.relu(bn(x))
        h = torch.compile(f) if mode == "compile" else f
        for name in (key, "batch norm + relu in one program 2097152x64"):  # to PyTorch it is one
            out(name, mode, 8 * 2 * x.numel(), lambda: torch.autograd.grad(h(x), (x, bn.weight, bn.bias), g))


def all_copies():
    t, u = 2 * 131072 * 768, 2 * 32768 * 4096
    if not wanted or "copy" in wanted:
        copies([k * v for v in (t, u) for k in (1, 2, 3, 4, 5)] + [4 * 8192 * 50304, 28 * 124_000_000, 16 * 2097152 * 64])


modes, wanted = arguments()
for part in (all_copies, rows_kernels, loss, batch_norm, adamw):
    try:
        part()
    except Exception as e:  # the others are still worth having
        print(f"{part.__name__}: {str(e)[:300]}", file=sys.stderr)
    torch.cuda.empty_cache()
