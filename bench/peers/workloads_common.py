"""What the peers of bench/workloads/*.net share: random data, optimizers, and the measurement of training steps.

usage of the files that import it: FILE NAME... [--mode eager|default|reduce-overhead|max-autotune]... [--tf32] [--tiny]
Prints a JSON object a line: seconds of a step (median of 30 by events), seconds until the first step was done.
--tf32: no autocast to bf16. --tiny: small sizes on the CPU, to see that the networks run.
"""
import json
import math
import time

import torch

from torch_times import arguments, stepped

modes, names = arguments()
tiny, tf32 = "--tiny" in names, "--tf32" in names
names = [n for n in names if not n.startswith("--")]
device = "cpu" if tiny else "cuda"
if not tiny:
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True


def rand(*shape):
    return torch.randn(*shape, device=device)


def ints(below, *shape):
    return torch.randint(0, below, shape, device=device)


def sgd(lr, momentum=0.9):
    return lambda p: torch.optim.SGD(p, lr=lr, momentum=momentum, fused=not tiny)


def adam(lr, **more):
    return lambda p: torch.optim.Adam(p, lr=lr, fused=not tiny, **more)


def adamw(lr, decay, **more):
    return lambda p: torch.optim.AdamW(p, lr=lr, weight_decay=decay, fused=not tiny, **more)


def size(large, small):
    return small if tiny else large


def rotated(x):
    """Rotary positions, by halves: x (..., T, d)."""
    T, d = x.shape[-2:]
    speed = 10000 ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    angle = torch.arange(T, device=x.device).float()[:, None] * speed
    c, s = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def routed(x, router, count, top, capacity, experts):
    """As std/transformer.net's experts: experts(rows) of rows (count, room, C), as many for each, to which the router sends tokens
    x (B, T, C). The sum of what the experts make of a token, weighted by its shares; the balance loss.
    """
    flat = x.flatten(0, 1)
    n, c = flat.shape
    room = math.ceil(capacity * top * n / count)
    likely = router(flat).float().softmax(-1)
    share, chosen = likely.topk(top, -1)
    share, chosen = (share / share.sum(-1, keepdim=True)).t().flatten(), chosen.t().flatten()
    hot = torch.nn.functional.one_hot(chosen, count)
    place = ((hot.cumsum(0) - hot) * hot).sum(-1)
    fits = place < room
    slot = torch.where(fits, chosen * room + place, count * room)
    token = torch.zeros(count * room + 1, dtype=torch.long, device=x.device).scatter(0, slot, torch.arange(top * n, device=x.device) % n)
    made = experts(flat[token[:-1]].view(count, room, c)).flatten(0, 1)[slot.clamp(max=count * room - 1)]
    made = made * torch.where(fits, share, 0).to(made.dtype)[:, None]
    balance = count * (hot.float().mean(0) * likely.mean(0)).sum()
    return made.view(top, n, c).sum(0).view(x.shape), balance


class Clipped:
    """An optimizer behind the clipping of all gradients together."""
    def __init__(self, parameters, most, optimizer):
        self.parameters, self.most = list(parameters), most
        self.optimizer = optimizer(self.parameters)

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, self.most)
        self.optimizer.step()

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)


def clipped(most, optimizer):
    return lambda p: Clipped(p, most, optimizer)


def step_of(network, mode, in_f32, eager):
    """A function that runs one training step. Two losses with two optimizers are those of a discriminator and a generator; without an
    optimizer, the loss is a function that makes the step of what compiles its parts."""
    net, loss, data, optimizer = network()

    def compiled(f):
        def g(*a):
            with torch.autocast(device, torch.bfloat16, enabled=not in_f32):
                return f(*a)
        if mode == "eager" or eager:
            return g
        return torch.compile(g, mode=None if mode == "default" else mode)
    if optimizer is None:
        return loss(compiled)
    if isinstance(loss, tuple):
        (d_loss, g_loss), (d_optimizer, g_optimizer) = loss, optimizer
        d_loss, g_loss = compiled(d_loss), compiled(g_loss)

        def step():
            torch.compiler.cudagraph_mark_step_begin()
            d_optimizer.zero_grad(set_to_none=True)
            loss, fake = d_loss(*data)
            loss.backward(retain_graph=True)
            d_optimizer.step()
            g_optimizer.zero_grad(set_to_none=True)
            g_loss(fake.clone()).backward()
            g_optimizer.step()
        return step
    optimizer, f = optimizer(net.parameters()), compiled(loss)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        f(*data).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def measure(networks, in_f32=(), eager=()):
    """Of each network that was asked for. in_f32: trained without autocast. eager: never compiled."""
    for name in names:
        for mode in ["eager"] if tiny else modes or ["default"]:
            try:
                begin = time.time()
                step = step_of(networks[name], mode, tf32 or name in in_f32, name in eager)
                step()
                if tiny:
                    print(name, "ok", flush=True)
                    continue
                torch.cuda.synchronize()
                first = time.time() - begin
                seconds = stepped(step)
                print(json.dumps({"name": name, "mode": mode, "seconds": seconds, "first": round(first, 1), "version": torch.__version__,
                                  "bytes": torch.cuda.max_memory_allocated()}), flush=True)
            except Exception as e:  # left out, with its reason
                print(json.dumps({"name": name, "mode": mode, "error": str(e)[:300]}), flush=True)
                if tiny:
                    raise
            if not tiny:
                step = None
                torch._dynamo.reset()
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
