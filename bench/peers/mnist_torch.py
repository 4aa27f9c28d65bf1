#!/usr/bin/env python3
"""The MLP of samples/mnist/mlp.net in PyTorch: 784-128-10, batch 128, AdamW, f32, data in memory.

usage: mnist_torch.py --data DIR [--device cuda] [--mode eager|compile|graph] [--tf32] [--epochs 5]
Prints one JSON object an epoch (its seconds; the first one's include compiling) and one at the end.
"""
import json
import time

import torch
import torch.nn.functional as F

import mnist


def main():
    p = mnist.arguments(__doc__)
    p.add_argument("--mode", default="eager", choices=("eager", "compile", "graph"))
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    torch.backends.cuda.matmul.allow_tf32 = a.tf32
    dev = torch.device(a.device)
    x, y, xt, yt = (torch.from_numpy(v.copy()).to(dev) for v in mnist.load(a.data))
    x, xt, y, yt = x.flatten(1), xt.flatten(1), y.long(), yt.long()
    steps = len(x) // a.batch
    lrs = mnist.learning_rates(steps * a.epochs)
    net = torch.nn.Sequential(torch.nn.Linear(784, a.hidden), torch.nn.ReLU(),
                              torch.nn.Linear(a.hidden, 10)).to(dev)
    graph_mode = a.mode == "graph"
    lr = torch.zeros((), device=dev)
    opt = torch.optim.AdamW(net.parameters(), lr=lr if a.device == "cuda" else 1e-3, weight_decay=0.01,
                            capturable=a.device == "cuda", fused=False, foreach=True)
    rows = torch.zeros(a.batch, dtype=torch.long, device=dev)

    def step():
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(net(x[rows].float() / 255), y[rows])
        loss.backward()
        opt.step()
        return loss

    run = step
    if a.mode == "compile":
        forward = torch.compile(lambda r: F.cross_entropy(net(x[r].float() / 255), y[r]))

        def run():
            opt.zero_grad(set_to_none=False)
            loss = forward(rows)
            loss.backward()
            opt.step()
            return loss
    rates = torch.from_numpy(lrs).to(dev)
    done, graph, captured = 0, None, None
    torch.cuda.reset_peak_memory_stats() if a.device == "cuda" else None
    seconds = []
    for epoch in range(a.epochs):
        if a.device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        order = torch.randperm(len(x), device=dev)
        total = torch.zeros((), device=dev)
        for i in range(steps):
            rows.copy_(order[i * a.batch:(i + 1) * a.batch])
            if a.device == "cuda":
                lr.copy_(rates[done])
            else:
                opt.param_groups[0]["lr"] = float(lrs[done])
            if graph_mode and graph is None and done == 3:  # after a few eager steps
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    captured = step()
            if graph is not None:
                graph.replay()
                loss = captured
            else:
                loss = run()
            total += loss.detach()
            done += 1
        mean = (total / steps).item()  # waits
        seconds.append(time.perf_counter() - start)
        print(json.dumps({"peer": "torch", "epoch": epoch + 1, "loss": mean, "seconds": seconds[-1]}),
              flush=True)
    with torch.no_grad():
        accuracy = (net(xt.float() / 255).argmax(1) == yt).float().mean().item()
    rest = sorted(seconds[1:] or seconds)
    result = {"peer": "torch", "version": torch.__version__, "device": a.device, "mode": a.mode,
              "tf32": a.tf32, "batch": a.batch, "epochs": a.epochs, "test_accuracy": accuracy,
              "seconds_per_epoch": rest[len(rest) // 2], "first_epoch": seconds[0]}
    if a.device == "cuda":
        result["gpu"] = torch.cuda.get_device_name()
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    else:
        result["threads"] = torch.get_num_threads()
    print(json.dumps(result))


main()
