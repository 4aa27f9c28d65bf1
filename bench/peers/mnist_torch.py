#!/usr/bin/env python3
"""The MLP of samples/mnist/mlp.net in PyTorch: 784-128-10, batch 128, AdamW, f32, data in device memory.

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
    lrs = mnist.learning_rates(steps * a.epochs, a.peak)
    base = torch.cuda.memory_allocated() if a.device == "cuda" else 0  # the data
    sizes = [784, *a.hidden, 10]
    activation = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "gelu": torch.nn.GELU}[a.activation]
    layers = []
    for n, width in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(n, width), activation()]
    net = torch.nn.Sequential(*layers[:-1]).to(dev)
    graph_mode = a.mode == "graph"
    lr = torch.zeros((), device=dev)
    rate = lr if a.device == "cuda" else 1e-3
    if a.optimizer == "sgd":
        opt = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, fused=True)
    else:
        opt = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01,
                                capturable=a.device == "cuda", fused=True)

    def loss_of(x, y):
        z = net(x.float() / 255)
        if a.loss == "mse":
            return F.mse_loss(z, F.one_hot(y, 10).float())
        return F.cross_entropy(z, y)

    rows = torch.zeros(a.batch, dtype=torch.long, device=dev)

    def step():
        opt.zero_grad(set_to_none=False)
        loss = loss_of(x[rows], y[rows])
        loss.backward()
        opt.step()
        return loss

    run = step
    if a.mode == "compile":
        forward = torch.compile(lambda r: loss_of(x[r], y[r]))

        def run():
            opt.zero_grad(set_to_none=False)
            loss = forward(rows)
            loss.backward()
            opt.step()
            return loss

    def share_right():
        with torch.no_grad():
            return (net(xt.float() / 255).argmax(1) == yt).float().mean().item()

    rates = torch.from_numpy(lrs).to(dev)
    order = torch.zeros(len(x), dtype=torch.long, device=dev)
    total = torch.zeros((), device=dev)
    at = torch.zeros(a.batch, dtype=torch.long, device=dev)  # graph mode: places in order, moved on by the graph
    now = torch.zeros(1, dtype=torch.long, device=dev)       # graph mode: the step

    def whole():  # with what chooses the batch and the rate: nothing is left to the host
        rows.copy_(order.index_select(0, at))
        lr.copy_(rates.index_select(0, now)[0])
        total.add_(step().detach())
        at.add_(a.batch)
        now.add_(1)

    done, graph = 0, None
    side = torch.cuda.Stream() if graph_mode else None
    if a.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for epoch in range(a.epochs):
        if a.device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        order.copy_(torch.randperm(len(x), device=dev))
        total.zero_()
        at.copy_(torch.arange(a.batch, device=dev))
        for i in range(steps):
            if graph is not None:
                graph.replay()
                continue
            if graph_mode and done < 3:  # the first steps warm up what the graph will use
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    whole()
                torch.cuda.current_stream().wait_stream(side)
                done += 1
                continue
            if graph_mode:
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    whole()
                graph.replay()
                continue
            rows.copy_(order[i * a.batch:(i + 1) * a.batch])
            if a.device == "cuda":
                lr.copy_(rates[done])
            else:
                opt.param_groups[0]["lr"] = float(lrs[done])
            total += run().detach()
            done += 1
        mean = (total / steps).item()  # waits
        seconds.append(time.perf_counter() - start)
        line = {"peer": "torch", "epoch": epoch + 1, "loss": mean, "seconds": seconds[-1]}
        if a.evaluate:
            line["test_accuracy"] = share_right()
        line["since_start"] = time.time() - a.started
        print(json.dumps(line), flush=True)
    peak = torch.cuda.max_memory_allocated() if a.device == "cuda" else 0
    accuracy = share_right()
    rest = sorted(seconds[1:] or seconds)
    result = {"peer": "torch", "version": torch.__version__, "device": a.device, "mode": a.mode,
              "tf32": a.tf32, "batch": a.batch, "hidden": a.hidden, "steps": steps, "epochs": a.epochs, "test_accuracy": accuracy,
              "seconds_per_epoch": rest[len(rest) // 2], "first_epoch": seconds[0]}
    if a.device == "cuda":
        result["gpu"] = torch.cuda.get_device_name()
        result["peak_bytes"] = peak
        result["peak_bytes_without_data"] = peak - base
    else:
        result["threads"] = torch.get_num_threads()
    print(json.dumps(result))


main()
