#!/usr/bin/env python3
"""The training steps of those of bench/workloads/*.net that are images in latents, fields, series, tables of words and agents in PyTorch,
like workloads_torch.py. workloads_common.py says how it is used.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from workloads_common import adam, adamw, clipped, device, ints, measure, rand, sgd, size
from workloads_sequences_torch import MLP, Heads
from workloads_structures_torch import Layer


# -- images, fields and series -----------------------------------------------------------------------------------------------------
class CrossHead(nn.Module):
    """One head whose keys and values are made of other rows than its queries."""
    def __init__(self, width, features):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(n, width, bias=False) for n in (width, features, features))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, other):
        return self.out(F.scaled_dot_product_attention(*(a[:, None] for a in (self.query(x), self.key(other), self.value(other))))[:, 0])


class See(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.norm_pixels, self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.ff = CrossHead(width, features), MLP(width, width, F.gelu)

    def forward(self, x, pixels):
        x = x + self.attn(self.norm1(x), self.norm_pixels(pixels))
        return x + self.ff(self.norm2(x))


class Think(nn.Module):
    def __init__(self, width, heads, depth):
        super().__init__()
        self.layer = nn.ModuleList([Layer(width, heads, width, bias=False) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layer:
            x = layer(x)
        return x


class Perceiver(nn.Module):
    def __init__(self, side, bands, latents, width, heads, depth, rounds, classes):
        super().__init__()
        at = torch.linspace(-1, 1, side)
        turns = at[:, None] * torch.linspace(1, side / 2, bands) * math.pi
        each = torch.cat([at[:, None], turns.sin(), turns.cos()], -1)
        n = each.shape[-1]
        both = torch.cat([each[:, None].expand(side, side, n), each.expand(side, side, n)], -1)
        self.register_buffer("places", both.flatten(0, 1), persistent=False)
        self.latent, self.rounds = nn.Parameter(0.02 * torch.randn(latents, width)), rounds
        self.see = nn.ModuleList([See(width, 3 + 2 * n) for _ in range(2)])
        self.think, self.last, self.head = Think(width, heads, depth), nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image, label):
        pixels = torch.cat([image.flatten(1, 2).float() / 127.5 - 1, self.places.expand(len(image), -1, -1)], -1)
        x = self.latent.expand(len(image), -1, -1)
        for i in range(self.rounds):
            x = self.think(self.see[min(i, 1)](x, pixels))
        return F.cross_entropy(self.head(self.last(x).mean(1)).float(), label)


def perceiver():
    side, classes, batch = size(96, 6), size(1000, 7), size(16, 2)
    net = Perceiver(side, size(32, 3), size(256, 5), size(512, 16), size(8, 2), size(4, 1), 3, classes).to(device)
    return net, net, (ints(256, batch, side, side, 3).to(torch.uint8), ints(classes, batch)), adamw(1e-3, 0.1)


class PatchLayer(nn.Module):
    def __init__(self, width, heads, hidden, drop):
        super().__init__()
        self.attn, self.up, self.down = Heads(width, heads, bias=True), nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2, self.drop = nn.BatchNorm1d(width), nn.BatchNorm1d(width), drop

    def forward(self, x):
        x = self.norm1((x + F.dropout(self.attn(x), self.drop)).flatten(0, 1)).view(x.shape)
        h = F.dropout(F.gelu(self.up(x)), self.drop)
        return self.norm2((x + F.dropout(self.down(h), self.drop)).flatten(0, 1)).view(x.shape)


class PatchTST(nn.Module):
    def __init__(self, series, past, future, patch, stride, width, heads, hidden, layers, drop):
        super().__init__()
        n = (past + stride - patch) // stride + 1
        self.scale, self.move = nn.Parameter(torch.ones(series)), nn.Parameter(torch.zeros(series))
        self.start, self.place = nn.Linear(patch, width), nn.Parameter(0.04 * torch.rand(n, width) - 0.02)
        self.layer = nn.ModuleList([PatchLayer(width, heads, hidden, drop) for _ in range(layers)])
        self.head, self.patch, self.stride, self.drop = nn.Linear(n * width, future), patch, stride, drop

    def forward(self, x, y):
        m = x.mean(1, keepdim=True)
        d = torch.sqrt(x.var(1, keepdim=True, correction=0) + 1e-5)
        x = ((x - m) / d * self.scale + self.move).transpose(1, 2)
        p = F.pad(x, (0, self.stride), "replicate").unfold(-1, self.patch, self.stride)
        h = F.dropout(self.start(p.flatten(0, 1)) + self.place, self.drop)
        for layer in self.layer:
            h = layer(h)
        z = self.head(h.flatten(1)).view(len(x), x.shape[1], -1).transpose(1, 2)
        return F.mse_loss((z - self.move) / (self.scale + 1e-10) * d + m, y)


def patchtst():
    series, past, future, batch = size(321, 3), size(336, 24), size(96, 6), size(32, 2)
    net = PatchTST(series, past, future, size(16, 8), size(8, 4), size(128, 16), size(16, 2), size(256, 20), size(3, 2), size(0.2, 0.0)).to(device)
    return net, net, (rand(batch, past, series), rand(batch, future, series)), adam(1e-4)


class Body(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.fc = nn.ModuleList([nn.Linear(width if i else n, width) for i in range(4)])

    def forward(self, x):
        for fc in self.fc:
            x = F.relu(fc(x))
        return x


class Explained(nn.Module):
    def __init__(self, past, future, width, basis):
        super().__init__()
        self.register_buffer("past", basis(past), persistent=False)
        self.register_buffer("future", basis(future), persistent=False)
        n = len(self.past)
        self.body, self.back, self.ahead = Body(past, width), nn.Linear(width, n, bias=False), nn.Linear(width, n, bias=False)

    def forward(self, x):
        h = self.body(x)
        return self.back(h) @ self.past, self.ahead(h) @ self.future


class Free(nn.Module):
    def __init__(self, past, future, width, last=False):
        super().__init__()
        self.body, self.ahead, self.ahead_basis, self.last = Body(past, width), nn.Linear(width, 32), nn.Linear(32, future), last
        if not last:
            self.back, self.back_basis = nn.Linear(width, 32), nn.Linear(32, past)

    def forward(self, x):
        h = self.body(x)
        return 0 if self.last else self.back_basis(self.back(h)), self.ahead_basis(self.ahead(h))


class NBeats(nn.Module):
    def __init__(self, future, trend, season, free):
        super().__init__()
        past = 5 * future

        def polynomials(n):
            t = torch.arange(n) / n
            return torch.stack([t ** i for i in range(4)])

        def waves(n):
            turns = torch.arange(future // 2)[:, None] * (torch.arange(n) / n) * (2 * math.pi)
            return torch.cat([turns.cos(), turns.sin()])
        self.block = nn.ModuleList([Explained(past, future, trend, polynomials) for _ in range(3)] +
                                   [Explained(past, future, season, waves) for _ in range(3)] +
                                   [Free(past, future, free, last=i == 2) for i in range(3)])

    def forward(self, x, right):
        y = 0
        for block in self.block:
            b, f = block(x)
            x, y = x - b, y + f
        return (200 * (y - right).abs() / (y.abs() + right.abs() + 1e-6)).mean()


def nbeats():
    future, batch = size(48, 4), size(4096, 5)
    net = NBeats(future, size(256, 8), size(2048, 16), size(512, 12)).to(device)
    return net, net, (rand(batch, 5 * future), rand(batch, future)), clipped(1.0, adam(1e-3))


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.re, self.im = (nn.Parameter(torch.rand(2 * modes, modes, width, width) / width ** 2) for _ in range(2))

    def forward(self, x):
        m = self.modes
        f = torch.fft.rfft2(x)[..., :m]
        f = torch.einsum("bckl,klcd->bdkl", torch.cat([f[:, :, :m], f[:, :, -m:]], 2), torch.complex(self.re, self.im))
        y = f.new_zeros(*f.shape[:2], x.shape[-2], x.shape[-1] // 2 + 1)
        y[:, :, :m, :m], y[:, :, -m:, :m] = f[:, :, :m], f[:, :, m:]
        return torch.fft.irfft2(y, s=x.shape[-2:])


class FNO(nn.Module):
    def __init__(self, side, modes, width, layers):
        super().__init__()
        at = (torch.arange(side) / side).expand(side, side)
        self.register_buffer("at", torch.stack([at, at.t()]), persistent=False)
        self.lift, self.head1, self.head2 = nn.Conv2d(3, width, 1), nn.Conv2d(width, 128, 1), nn.Conv2d(128, 1, 1)
        self.spectral = nn.ModuleList([Spectral(width, modes) for _ in range(layers)])
        self.skip = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in range(layers)])

    def forward(self, field, right):
        x = self.lift(torch.cat([field[:, None], self.at.expand(len(field), -1, -1, -1)], 1))
        for i, (spectral, skip) in enumerate(zip(self.spectral, self.skip)):
            x = spectral(F.gelu(x) if i else x) + skip(F.gelu(x) if i else x)
        y = self.head2(F.gelu(self.head1(x)))[:, 0]
        return ((y - right).norm(dim=(1, 2)) / right.norm(dim=(1, 2))).mean()


def fno():
    side, batch = size(128, 10), size(16, 2)
    net = FNO(side, size(16, 3), size(64, 6), size(4, 2)).to(device)
    return net, net, (rand(batch, side, side), rand(batch, side, side)), adamw(1e-3, 1e-4)


class ConvAt(nn.Conv2d):
    def __init__(self, width):
        super().__init__(width + 1, width, 3, padding=1)

    def forward(self, x, t):
        return super().forward(torch.cat([torch.full_like(x[:, :1], t), x], 1))


class Slope(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(groups, width) for _ in range(3))
        self.conv1, self.conv2 = ConvAt(width), ConvAt(width)

    def forward(self, x, t):
        h = self.conv1(F.relu(self.norm1(x)), t)
        return self.norm3(self.conv2(F.relu(self.norm2(h)), t))


class NODE(nn.Module):
    def __init__(self, width, groups, steps, classes):
        super().__init__()
        self.start, self.steps = nn.Conv2d(1, width, 3), steps
        self.norm, self.down = (nn.ModuleList([make() for _ in range(2)]) for make in
                                (lambda: nn.GroupNorm(groups, width), lambda: nn.Conv2d(width, width, 4, 2, 1)))
        self.slope, self.last, self.head = Slope(width, groups), nn.GroupNorm(groups, width), nn.Linear(width, classes)

    def forward(self, image, label):
        x, h = self.start(image[:, None].to(memory_format=torch.channels_last)), 1 / self.steps
        for norm, down in zip(self.norm, self.down):
            x = down(F.relu(norm(x)))
        for i in range(self.steps):
            t = i * h
            k1 = self.slope(x, t)
            k2 = self.slope(x + h / 2 * k1, t + h / 2)
            k3 = self.slope(x + h / 2 * k2, t + h / 2)
            k4 = self.slope(x + h * k3, t + h)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return F.cross_entropy(self.head(F.relu(self.last(x)).mean((2, 3))).float(), label)


def node():
    side, batch, classes = size(28, 14), size(512, 3), 10
    net = NODE(size(64, 8), size(32, 4), size(8, 3), classes).to(device, memory_format=torch.channels_last)
    return net, net, (rand(batch, side, side), ints(classes, batch)), sgd(0.1)


# -- other data --------------------------------------------------------------------------------------------------------------------
class KANLayer(nn.Module):
    def __init__(self, features, out, parts=5, order=3):
        super().__init__()
        n = features * (parts + order)
        self.base, self.spline, self.order = nn.Linear(features, out, bias=False), nn.Parameter(torch.randn(out, n) * (0.1 / math.sqrt(n))), order
        self.register_buffer("grid", (torch.arange(parts + 2 * order + 1) - order) * (2 / parts) - 1, persistent=False)

    def splines(self, x):
        g, x = self.grid, x[..., None].float()
        b = ((x >= g[:-1]) & (x < g[1:])).float()
        for k in range(1, self.order + 1):
            left, right = (x - g[:-k - 1]) / (g[k:-1] - g[:-k - 1]), (g[k + 1:] - x) / (g[k + 1:] - g[1:-k])
            b = left * b[..., :-1] + right * b[..., 1:]
        return b.flatten(1)

    def forward(self, x):
        return self.base(F.silu(x)) + F.linear(self.splines(x), self.spline)


class KAN(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.layer1, self.layer2, self.layer3 = (KANLayer(a, b) for a, b in [(features, width), (width, width), (width, classes)])

    def forward(self, x, label):
        return F.cross_entropy(self.layer3(self.layer2(self.layer1(x))).float(), label)


def kan():
    features, batch, classes = size(784, 12), size(16384, 5), 10
    net = KAN(features, size(256, 9), classes).to(device)
    return net, net, (rand(batch, features), ints(classes, batch)), adamw(1e-3, 1e-4)


class Tower(nn.Module):
    def __init__(self, features, widths):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (nn.Linear(a, b) for a, b in zip([features] + widths, widths))

    def forward(self, x):
        return F.normalize(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))).float(), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, users, items, kinds, width, widths):
        super().__init__()
        self.user, self.item, self.kind = nn.Embedding(users, width), nn.Embedding(items, width), nn.Embedding(kinds, 16)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        self.user_tower, self.item_tower = Tower(2 * width, widths), Tower(width + 16, widths)

    def forward(self, user, history, count, item, kind, log_share):
        real = count[:, None] > torch.arange(history.shape[1], device=count.device)
        past = (self.item(history) * real[..., None]).sum(1) / count[:, None]
        u = self.user_tower(torch.cat([self.user(user), past], -1))
        v = self.item_tower(torch.cat([self.item(item), self.kind(kind)], -1))
        scores = (u @ v.t()).float() / 0.05 - log_share
        at = torch.arange(len(item), device=item.device)
        same = (item[:, None] == item) & (at[:, None] != at)
        return F.cross_entropy(scores.masked_fill(same, -1e9), at)


def twotower():
    users, items, kinds, seen, batch = size(1000000, 30), size(500000, 20), size(1000, 4), size(32, 5), size(8192, 6)
    net = TwoTower(users, items, kinds, size(64, 8), size([512, 256, 128], [12, 10, 6])).to(device)
    data = ints(users, batch), ints(items, batch, seen), 1 + ints(seen, batch), ints(items, batch), ints(kinds, batch), -5 + rand(batch)
    return net, net, data, lambda p: torch.optim.Adagrad(p, lr=0.01, fused=False, foreach=True)


class Three(nn.Module):
    def __init__(self, features, width, out):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(features, width), nn.Linear(width, width), nn.Linear(width, out)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Critics(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.critic = nn.ModuleList([Three(features, width, 1) for _ in range(2)])

    def forward(self, seen, action):
        x = torch.cat([seen, action], -1)
        return [q(x)[:, 0].float() for q in self.critic]


def act(actor, seen, noise):
    m, s = actor(seen).float().chunk(2, -1)
    s = s.clamp(-20, 2)
    u = m + torch.exp(s) * noise
    density = -0.5 * noise ** 2 - s - 0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - u - F.softplus(-2 * u))
    return torch.tanh(u), density.sum(-1)


def sac():
    features, actions, width, batch = size(376, 6), size(17, 2), size(1024, 12), size(4096, 5)
    actor, critics = Three(features, width, 2 * actions).to(device), Critics(features + actions, width).to(device)
    slow = Critics(features + actions, width).to(device).requires_grad_(False)
    slow.load_state_dict(critics.state_dict())
    log_heat = nn.Parameter(torch.zeros((), device=device))
    data = rand(batch, features), rand(batch, actions).tanh(), rand(batch), ints(2, batch).float(), rand(batch, features)

    def noise():
        return torch.randn(batch, actions, device=device)

    def q_loss(seen, action, reward, going, later, noise):
        with torch.no_grad():
            a, density = act(actor, later, noise)
            goal = reward + 0.99 * going * (torch.minimum(*slow(later, a)) - log_heat.exp() * density)
        q1, q2 = critics(seen, action)
        return F.mse_loss(q1, goal) + F.mse_loss(q2, goal)

    def actor_loss(seen, noise):
        a, density = act(actor, seen, noise)
        return (log_heat.exp().detach() * density - torch.minimum(*critics(seen, a))).mean(), density.detach()

    def heat_loss(density):
        return -(log_heat * (density - actions)).mean()

    def steps(compiled):
        """A training step of functions that `compiled` made."""
        losses = compiled(q_loss), compiled(actor_loss), heat_loss
        sets = list(critics.parameters()), list(actor.parameters()), [log_heat]
        optimizers = [adam(3e-4)(p) for p in sets]

        def update(i, loss):
            for p, g in zip(sets[i], torch.autograd.grad(loss, sets[i])):
                p.grad = g
            optimizers[i].step()

        def step():
            update(0, losses[0](*data, noise()))
            torch._foreach_lerp_(list(slow.parameters()), sets[0], 0.005)
            loss, density = losses[1](data[0], noise())
            update(1, loss)
            update(2, losses[2](density))
        return step
    return (actor, critics, slow, log_heat), steps, data, None


if __name__ == "__main__":
    measure(globals(), in_f32=["fno", "sac"])
