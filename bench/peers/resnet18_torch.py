#!/usr/bin/env python3
"""samples/cifar10/resnet18.net in PyTorch: bf16, channels last.

usage: resnet18_torch.py infer MODE BATCH    MODE: eager, or one of torch.compile's; weights in bf16, batch norm folded
       resnet18_torch.py step MODE BATCH     a training step on data already there, without augmentation; MODE as above, the
                                             optimizer fused
       resnet18_torch.py train FOLDER EPOCHS SEED [BATCH]    autocast, the whole step one CUDA graph; FOLDER: CIFAR-10's .bin
Prints one JSON object: seconds of a call (step: median by events; infer, by events, replays of a CUDA graph; and by the clock, one call after the
other); test accuracy, seconds of training and since the process began (train).
"""
import glob
import json
import math
import os
import sys
import time

begin = time.time()
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_times import elapsed, graphed

torch.backends.cudnn.benchmark = True


class Part(nn.Module):
    def __init__(self, c, out, size, stride):
        super().__init__()
        self.conv = nn.Conv2d(c, out, size, stride, size // 2, bias=False)
        self.bn = nn.BatchNorm2d(out)
        nn.init.kaiming_normal_(self.conv.weight)

    def forward(self, x):
        return self.bn(self.conv(x))


class Block(nn.Module):
    def __init__(self, c, out, stride):
        super().__init__()
        self.first, self.second = Part(c, out, 3, stride), Part(out, out, 3, 1)
        self.shortcut = Part(c, out, 1, stride) if stride != 1 or c != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Part(3, 64, 3, 1)
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        self.blocks = nn.Sequential(*[Block(c, out, 1 if c == out else 2) for c, out in zip(widths, widths[1:])])
        self.head = nn.Linear(512, 10)

    def forward(self, x):  # u8 (B, 3, 32, 32)
        x = (x.float() / 127.5 - 1).to(self.head.weight.dtype).contiguous(memory_format=torch.channels_last)
        return self.head(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


def infer(mode, batch):
    torch._inductor.config.freezing = True
    net = ResNet18().cuda().bfloat16().to(memory_format=torch.channels_last).eval()
    x = torch.randint(0, 256, (batch, 3, 32, 32), dtype=torch.uint8, device="cuda")
    with torch.no_grad():
        f = net if mode == "eager" else torch.compile(net, mode=None if mode == "default" else mode)
        start = time.time()
        f(x)
        torch.cuda.synchronize()
        compiled = time.time() - start
        for _ in range(20):
            f(x)
        torch.cuda.synchronize()
        start, n = time.time(), 200
        for _ in range(n):
            f(x)
        torch.cuda.synchronize()
        result = {"name": "resnet18", "mode": mode, "batch": batch, "clock": (time.time() - start) / n, "compile": round(compiled, 1)}
        if mode not in ("reduce-overhead", "max-autotune"):  # they capture graphs themselves
            result["seconds"] = graphed(lambda: f(x), 15)
    print(json.dumps(result), flush=True)


def step(mode, batch):
    net = ResNet18().cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=True)
    x = torch.randint(0, 256, (batch, 3, 32, 32), dtype=torch.uint8, device="cuda")
    y = torch.randint(0, 10, (batch,), device="cuda")

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(net(x).float(), y, label_smoothing=0.1)
    f = loss_of if mode == "eager" else torch.compile(loss_of, mode=None if mode == "default" else mode)

    def once():
        torch.compiler.cudagraph_mark_step_begin()
        f(x, y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    start = time.time()
    once()
    torch.cuda.synchronize()
    compiled = time.time() - start
    for _ in range(10):
        once()
    times = [elapsed(once) for _ in range(50)]
    torch.cuda.synchronize()
    seconds = sorted(a.elapsed_time(b) for a, b in times)[25] / 1e3
    print(json.dumps({"name": "resnet18", "mode": mode, "batch": batch, "seconds": seconds, "compile": round(compiled, 1)}), flush=True)


def load(files):
    raw = [torch.frombuffer(bytearray(open(f, "rb").read()), dtype=torch.uint8).view(-1, 3073) for f in files]
    raw = torch.cat(raw).cuda()
    return raw[:, 1:].reshape(-1, 3, 32, 32).contiguous(), raw[:, 0].long()


def augmented(x, pad=4):
    B, C, H, W = x.shape
    top, left = (torch.randint(0, 2 * pad + 1, (B, 1, 1), device="cuda") for _ in range(2))
    flip = torch.rand(B, 1, 1, device="cuda") < 0.5
    col = torch.arange(W, device="cuda").view(1, 1, W)
    col = left + torch.where(flip, W - 1 - col, col)
    row = top + torch.arange(H, device="cuda").view(1, H, 1)
    padded = F.pad(x, (pad,) * 4).permute(0, 2, 3, 1)
    return padded[torch.arange(B, device="cuda").view(B, 1, 1), row, col].permute(0, 3, 1, 2)


def train(folder, epochs, seed, batch=128):
    torch.manual_seed(seed)
    images, labels = load(sorted(glob.glob(os.path.join(folder, "data_batch_*.bin"))))
    net = ResNet18().cuda().to(memory_format=torch.channels_last).train()
    params = list(net.parameters())
    moved = [torch.zeros_like(p) for p in params]
    lr, x, y = torch.zeros((), device="cuda"), images[:batch].clone(), labels[:batch].clone()

    def step():
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = F.cross_entropy(net(augmented(x)).float(), y, label_smoothing=0.1)
        grads = list(torch.autograd.grad(loss, params))
        with torch.no_grad():  # SGD with Nesterov's momentum, decay of all parameters
            torch._foreach_add_(grads, params, alpha=5e-4)
            torch._foreach_mul_(moved, 0.9)
            torch._foreach_add_(moved, grads)
            torch._foreach_add_(grads, moved, alpha=0.9)
            torch._foreach_mul_(grads, lr)
            torch._foreach_sub_(params, grads)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # at a learning rate of 0
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for v in moved:
        v.zero_()
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.reset_running_stats()
    torch.cuda.synchronize()
    start, steps = time.time(), len(images) // batch
    for at in range(epochs * steps):
        if at % steps == 0:
            order = torch.randperm(len(images), device="cuda")
        t = min(max((at - 100) / (epochs * steps - 100), 0), 1)
        lr.fill_(0.2 * (at + 1) / 100 if at < 100 else 0.1 * (1 + math.cos(math.pi * t)))
        part = order[at % steps * batch:(at % steps + 1) * batch]
        x.copy_(images[part])
        y.copy_(labels[part])
        graph.replay()
    torch.cuda.synchronize()
    seconds = time.time() - start
    net.eval()
    images, labels = load([os.path.join(folder, "test_batch.bin")])
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        right = sum((net(images[i:i + 1000]).argmax(1) == labels[i:i + 1000]).sum().item() for i in range(0, len(images), 1000))
    print(json.dumps({"name": "resnet18", "mode": "train", "seed": seed, "accuracy": right / len(images), "seconds": round(seconds, 2),
                      "since_start": round(time.time() - begin, 2)}), flush=True)


if sys.argv[1] == "infer":
    infer(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "step":
    step(sys.argv[2], int(sys.argv[3]))
else:
    train(sys.argv[2], *map(int, sys.argv[3:]))
