#!/usr/bin/env python3
"""Predictions of bench/workloads/*.net and samples/bert in PyTorch: model.eval(), inference_mode, weights in bf16 (pinn: f32 with TF32),
channels last. Inputs are on the device, floats of them in f32, as netc is given them.

usage: serving_torch.py NAME:BATCH... [--mode eager|default|reduce-overhead|max-autotune|max-autotune-no-cudagraphs]... [--tiny]
Prints a JSON object a line. calls: seconds of a call of many in a row from Python. graph: the same within one CUDA graph, for modes that
use none themselves. seconds: the smaller one. first: seconds until the first call was done.
--tiny: small sizes on the CPU, to see that the networks run.
"""
import json
import time

import torch

import workloads_torch as workloads
from torch_times import elapsed, graphed
from workloads_common import modes, names, rand, tiny


def likeliest(logits):
    return logits.argmax(-1), logits


# NAME: the function that predicts, of what the workload makes; which of the workload's data it takes
USES = {
    "diffusion": (lambda net: net.predict, lambda d: (d[0], d[2])),
    "bert": (lambda net: lambda tokens: likeliest(net.predict(tokens)), lambda d: d),
    "moe": (lambda net: lambda tokens: net.predict(tokens)[0], lambda d: (d[0][:, :-1],)),
    "wavenet": (lambda net: net.predict, lambda d: (d[0][:, :-1],)),
    "gcn": (lambda net: net.predict, lambda d: d[:4]),
    "dlrm": (lambda net: net.predict, lambda d: d[:2]),
    "pinn": (lambda net: net.predict, lambda d: d[:2]),
    "vae": (lambda net: net.decode, lambda d: (rand(1, 128),)),
    "dcgan": (lambda net: net, lambda d: (rand(1, 100),)),
}
IMAGES = (lambda net: net, lambda d: d[:1])


def rows(x, batch):
    """As many examples of x as batch says, in x's layout."""
    if len(x) == 1 and x.is_floating_point():
        return rand(batch, *x.shape[1:]).to(memory_format=layout(x))
    return x[torch.arange(batch, device=x.device) % len(x)].contiguous(memory_format=layout(x))


def layout(x):
    return {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim(), torch.contiguous_format)


def call_of(name, batch, mode):
    """A function without arguments that predicts for a batch."""
    net, _, data, _ = getattr(workloads, name)()
    net = (net[0] if name == "dcgan" else net).eval()
    kind = torch.float32 if name in workloads.IN_F32 else torch.bfloat16
    use, inputs = USES.get(name, IMAGES)
    predict = use(net.to(kind))
    inputs = [x if name == "gcn" else rows(x, batch) for x in inputs(data)]

    def serve(*given):
        return predict(*[x.to(kind) if x.is_floating_point() else x for x in given])
    f = serve if mode == "eager" else torch.compile(serve, mode=None if mode == "default" else mode, dynamic=False)

    def call():
        torch.compiler.cudagraph_mark_step_begin()
        return f(*inputs)
    return call


def in_a_row(call, n=15, fill=10):
    """Median seconds of a call: n times as many calls in a row as fill so many ms, timed by events."""
    for _ in range(5):
        call()
    begin, end = elapsed(call)
    torch.cuda.synchronize()
    inner = max(2, min(1000, int(fill / max(begin.elapsed_time(end), 1e-2))))
    times = [elapsed(lambda: [call() for _ in range(inner)]) for _ in range(n)]
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in times)[n // 2] / inner / 1e3


def measured(name, batch, mode):
    begin = time.time()
    call = call_of(name, batch, mode)  # (parameters are no inference tensors, as those of a loaded model)
    with torch.inference_mode():
        return times_of(call, begin, mode)


def times_of(call, begin, mode):
    call()
    torch.cuda.synchronize()
    row = {"first": round(time.time() - begin, 1), "calls": in_a_row(call)}
    row["seconds"] = row["calls"]
    if mode in ["eager", "default", "max-autotune-no-cudagraphs"]:
        row["graph"] = graphed(call)
        row["seconds"] = min(row["calls"], row["graph"])
    return {**row, "bytes": torch.cuda.max_memory_allocated()}


def main():
    for word in names:
        name, _, batch = word.partition(":")
        batch = int(batch or 1)
        if tiny:
            call = call_of(name, batch, (modes or ["eager"])[0])
            with torch.inference_mode():
                call()
            print(word, "ok", flush=True)
            continue
        for mode in modes or ["reduce-overhead"]:
            row = {"name": name, "batch": batch, "mode": mode, "version": torch.__version__}
            try:
                row.update(measured(name, batch, mode))
            except Exception as e:  # left out, with its reason
                row["error"] = str(e)[:300]
            print(json.dumps(row), flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
