#!/usr/bin/env python3
"""The training steps of bench/workloads/*.net in PyTorch: random data that is there already, autocast to bf16 (f32 with TF32 for those
that are trained in f32), channels last, fused optimizers. workloads_common.py says how it is used.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

from workloads_common import adam, adamw, device, ints, measure, rand, rotated, routed, sgd, size, tiny


def images(batch, side):
    return rand(batch, 3, side, side).to(memory_format=torch.channels_last)


def classifier(net, batch, side, optimizer):
    net = net.to(device, memory_format=torch.channels_last)
    return net, lambda x, y: F.cross_entropy(net(x).float(), y), (images(batch, side), ints(1000, batch)), optimizer


# -- images ------------------------------------------------------------------------------------------------------------------------
def resnet50():
    return classifier(torchvision.models.resnet50(), size(128, 2), size(224, 32), sgd(0.1))


def resnext50():
    return classifier(torchvision.models.resnext50_32x4d(), size(128, 2), size(224, 32), sgd(0.1))


def mobilenet():
    return classifier(torchvision.models.mobilenet_v2(), size(128, 2), size(224, 32), sgd(0.05))


def convnext():
    return classifier(torchvision.models.convnext_tiny(stochastic_depth_prob=0.0), size(64, 2), size(224, 32), adamw(0.001, 0.05))


class Block(nn.Module):
    """A layer of a transformer with its norms before; see(x) and feed(x)."""
    def __init__(self, width, see, feed):
        super().__init__()
        self.norm1, self.norm2, self.see, self.feed = nn.LayerNorm(width), nn.LayerNorm(width), see, feed

    def forward(self, x):
        x = x + self.see(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Heads(nn.Module):
    def __init__(self, width, heads, bias=True, causal=False, rope=False):
        super().__init__()
        self.heads, self.causal, self.rope = heads, causal, rope
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        if self.rope:
            q, k = rotated(q), rotated(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


def feed(width, hidden, act=nn.GELU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, width))


class Patches(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(3 * 256, width)

    def forward(self, x):
        B, C, H, W = x.shape
        return self.linear(x.view(B, C, H // 16, 16, W // 16, 16).permute(0, 2, 4, 3, 5, 1).reshape(B, H * W // 256, 256 * C))


class ViT(nn.Module):
    def __init__(self, side, layers=12, width=384, heads=6):
        super().__init__()
        self.patch, self.first = Patches(width), nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn((side // 16) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*[Block(width, Heads(width, heads), feed(width, 4 * width)) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patch(x)
        x = torch.cat([self.first.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.position
        return self.head(self.norm(self.layers(x)[:, 0]))


def vit():
    side = size(224, 32)
    return classifier(ViT(side), size(128, 2), side, adamw(0.001, 0.05))


class MixerLayer(nn.Module):
    def __init__(self, positions, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.along, self.across = feed(positions, 256), feed(width, 2048)

    def forward(self, x):
        x = x + self.along(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, side, width=512):
        super().__init__()
        self.patch = Patches(width)
        self.layers = nn.Sequential(*[MixerLayer((side // 16) ** 2, width) for _ in range(8)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.patch(x))).mean(1))


def mixer():
    side = size(224, 32)
    return classifier(Mixer(side), size(128, 2), side, adamw(0.001, 0.1))


def convs(c, out, conv=nn.Conv2d, norm=nn.BatchNorm2d):
    return nn.Sequential(conv(c, out, 3, padding=1, bias=False), norm(out), nn.ReLU(),
                         conv(out, out, 3, padding=1, bias=False), norm(out), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        w = [width * 2 ** i for i in range(5)]
        self.down = nn.ModuleList([convs(c, o) for c, o in zip([3] + w, w)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * o, o, 2, 2) for o in w[:-1]])
        self.join = nn.ModuleList([convs(2 * o, o) for o in w[:-1]])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        levels = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else F.max_pool2d(x, 2))
            levels.append(x)
        for i in reversed(range(4)):
            x = self.join[i](torch.cat([levels[i], self.up[i](x)], 1))
        return self.head(x)


def unet():
    net, batch, side = UNet().to(device, memory_format=torch.channels_last), size(16, 1), size(256, 32)
    return net, lambda x, y: F.cross_entropy(net(x).float(), y), (images(batch, side), ints(2, batch, side, side)), adam(0.001)


class UNet3d(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        w = [width * 2 ** i for i in range(4)]

        def both(c, out):
            return convs(c, out, nn.Conv3d, lambda n: nn.InstanceNorm3d(n, affine=True))
        self.down = nn.ModuleList([both(c, o) for c, o in zip([1] + w, w)])
        self.join = nn.ModuleList([both(3 * o, o) for o in w[:-1]])
        self.head = nn.Conv3d(width, 3, 1)

    def forward(self, x):
        levels = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else F.max_pool3d(x, 2))
            levels.append(x)
        for i in reversed(range(3)):
            x = self.join[i](torch.cat([levels[i], F.interpolate(x, scale_factor=2)], 1))
        return self.head(x)


def unet3d():
    net, batch, side = UNet3d().to(device, memory_format=torch.channels_last_3d), size(2, 1), size(96, 16)
    x = rand(batch, 1, side, side, side).to(memory_format=torch.channels_last_3d)
    return net, lambda x, y: F.cross_entropy(net(x).float(), y), (x, ints(3, batch, side, side, side)), adam(0.001)


class Residual(nn.Module):
    def __init__(self, c, out, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, c), nn.GroupNorm(32, out)
        self.conv1, self.conv2 = nn.Conv2d(c, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time, self.shortcut = nn.Linear(4 * width, out), nn.Conv2d(c, out, 1) if c != out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        h = self.conv2(F.dropout(F.silu(self.norm2(h)), 0.1, self.training))
        return self.shortcut(x) + h


class Attend(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(32, c), Heads(c, 1)

    def forward(self, x):
        B, C, H, W = x.shape
        h = self.heads(self.norm(x).permute(0, 2, 3, 1).reshape(B, H * W, C))
        return x + h.view(B, H, W, C).permute(0, 3, 1, 2)


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        i = torch.arange(width)
        turns = torch.arange(1000)[:, None] * torch.exp((i // 2 * 2) * (-math.log(10000) / width))
        self.register_buffer("sinusoid", torch.where(i % 2 == 0, turns.sin(), turns.cos()))
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.shrink, self.seen = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        c, kept = width, [width]
        for i, wider in enumerate([1, 2, 2, 2]):
            for _ in range(2):
                self.down.append(Residual(c, wider * width, width))
                c = wider * width
                self.seen.append(Attend(c) if i == 1 else nn.Identity())
                kept.append(c)
            if i < 3:
                self.shrink.append(nn.Conv2d(c, c, 3, 2, padding=1))
                kept.append(c)
        self.middle1, self.middle, self.middle2 = Residual(c, c, width), Attend(c), Residual(c, c, width)
        self.up, self.grow, self.upseen = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for n in range(4):
            i = 3 - n
            for _ in range(3):
                out = width * (1 if i == 0 else 2)
                self.up.append(Residual(c + kept.pop(), out, width))
                c = out
                self.upseen.append(Attend(c) if i == 1 else nn.Identity())
            if i > 0:
                self.grow.append(nn.Conv2d(c, c, 3, padding=1))
        self.norm, self.head = nn.GroupNorm(32, c), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, image, noise, time):
        angle = (time.float() / 1000)[:, None, None, None] * 1.5707963
        return self.predict(image * torch.cos(angle) + noise * torch.sin(angle), time)

    def predict(self, x, time):
        x = self.stem(x)
        t, levels = self.time(self.sinusoid[time]), None
        levels = [x]
        for i in range(4):
            for k in range(2):
                x = self.seen[2 * i + k](self.down[2 * i + k](x, t))
                levels.append(x)
            if i < 3:
                x = self.shrink[i](x)
                levels.append(x)
        x = self.middle2(self.middle(self.middle1(x, t)), t)
        for n in range(4):
            for k in range(3):
                x = self.upseen[3 * n + k](self.up[3 * n + k](torch.cat([x, levels.pop()], 1), t))
            if n < 3:
                x = self.grow[n](F.interpolate(x, scale_factor=2))
        return self.head(F.silu(self.norm(x)))


def diffusion():
    net, batch = Denoiser().to(device, memory_format=torch.channels_last), size(128, 2)
    data = images(batch, 32), images(batch, 32), ints(1000, batch)
    return net, lambda x, e, t: F.mse_loss(net(x, e, t).float(), e), data, adam(0.0002)


class VAE(nn.Module):
    def __init__(self, w=32, code=128):
        super().__init__()

        def down(c, out):
            return nn.Sequential(nn.Conv2d(c, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU())

        def up(c, out):
            return nn.Sequential(nn.ConvTranspose2d(c, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU())
        self.down = nn.Sequential(down(3, w), down(w, 2 * w), down(2 * w, 4 * w), down(4 * w, 8 * w))
        self.middle, self.spread = nn.Linear(128 * w, code), nn.Linear(128 * w, code)
        self.wide = nn.Linear(code, 128 * w)
        self.up = nn.Sequential(up(8 * w, 4 * w), up(4 * w, 2 * w), up(2 * w, w), nn.ConvTranspose2d(w, 3, 4, 2, 1))

    def forward(self, x):
        flat = self.down(x).permute(0, 2, 3, 1).flatten(1)
        m, s = self.middle(flat).float(), self.spread(flat).float()
        z = m + torch.exp(0.5 * s) * torch.randn_like(m)
        y = self.decode(z)
        return ((y - x) ** 2).sum() / len(x) - 0.5 * (1 + s - m ** 2 - s.exp()).sum(-1).mean()

    def decode(self, z):
        return torch.sigmoid(self.up(self.wide(z).view(len(z), 4, 4, -1).permute(0, 3, 1, 2)).float())


def vae():
    net = VAE().to(device, memory_format=torch.channels_last)
    return net, net, (images(size(256, 2), 64),), adam(0.001)


def dcgan():
    w, code, batch = 64, 100, size(128, 2)

    def up(c, out):
        return nn.Sequential(nn.ConvTranspose2d(c, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    def down(c, out, norm=True):
        return nn.Sequential(nn.Conv2d(c, out, 4, 2, 1, bias=False), *([nn.BatchNorm2d(out)] if norm else []), nn.LeakyReLU(0.2))
    G = nn.Sequential(nn.Linear(code, 128 * w, bias=False), nn.Unflatten(1, (8 * w, 4, 4)), nn.BatchNorm2d(8 * w), nn.ReLU(), up(8 * w, 4 * w),
                      up(4 * w, 2 * w), up(2 * w, w), nn.ConvTranspose2d(w, 3, 4, 2, 1, bias=False), nn.Tanh()).to(device, memory_format=torch.channels_last)
    D = nn.Sequential(down(3, w, False), down(w, 2 * w), down(2 * w, 4 * w), down(4 * w, 8 * w), nn.Flatten(),
                      nn.Linear(128 * w, 1)).to(device, memory_format=torch.channels_last)
    options = dict(lr=2e-4, betas=(0.5, 0.999), fused=not tiny)
    d_optimizer, g_optimizer = torch.optim.Adam(D.parameters(), **options), torch.optim.Adam(G.parameters(), **options)
    bce = F.binary_cross_entropy_with_logits

    def d_loss(x):
        fake = G(torch.randn(batch, code, device=device))
        a, b = D(x).float(), D(fake.detach()).float()
        return bce(a, torch.ones_like(a)) + bce(b, torch.zeros_like(b)), fake

    def g_loss(fake):
        c = D(fake).float()
        return bce(c, torch.ones_like(c))
    return (G, D), (d_loss, g_loss), (images(batch, 64),), (d_optimizer, g_optimizer)


# -- texts -------------------------------------------------------------------------------------------------------------------------
class BertLayer(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2, self.feed = nn.LayerNorm(width), nn.LayerNorm(width), feed(width, 4 * width)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.drop if self.training else 0)
        x = self.norm1(x + F.dropout(self.out(y.transpose(1, 2).reshape(B, T, C)), self.drop, self.training))
        return self.norm2(x + F.dropout(self.feed(x), self.drop, self.training))


class Bert(nn.Module):
    """samples/bert/bert.net's encoder and its head over all places."""
    def __init__(self, layers=12, width=768, heads=12, vocab=30522, drop=0.1):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab, width), nn.Embedding(512, width)
        self.norm, self.drop = nn.LayerNorm(width), drop
        self.layers = nn.ModuleList([BertLayer(width, heads, drop) for _ in range(layers)])
        self.dense, self.norm2, self.bias = nn.Linear(width, width), nn.LayerNorm(width), nn.Parameter(torch.zeros(vocab))

    def forward(self, tokens):
        chosen = torch.rand(tokens.shape, device=tokens.device) < 0.15
        logits = self.predict(torch.where(chosen, 103, tokens))
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none")
        return (loss * chosen.flatten()).sum() / chosen.sum()

    def predict(self, tokens):
        mask = (tokens != 0)[:, None, None, :]
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        x = F.dropout(self.norm(x), self.drop, self.training)
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm2(F.gelu(self.dense(x)))
        return F.linear(x, self.words.weight.to(x.dtype) if x.dtype != torch.float32 else self.words.weight, self.bias)


def bert():
    net = Bert(layers=size(12, 1)).to(device)
    return net, net, (ints(30522, size(32, 2), size(128, 8)),), adamw(1e-4, 0.01)


class Experts(nn.Module):
    """As std/transformer.net's experts: rows of the same capacity for each."""
    def __init__(self, width, count=8, top=2, capacity=1.25):
        super().__init__()
        self.router, self.count, self.top, self.capacity = nn.Linear(width, count, bias=False), count, top, capacity
        self.up, self.down = (nn.Parameter(torch.randn(count, a, b) * 0.02) for a, b in [(width, 4 * width), (4 * width, width)])

    def multiplied(self, rows):
        h = F.gelu(torch.bmm(rows, self.up.to(rows.dtype)), approximate="tanh")
        return torch.bmm(h, self.down.to(h.dtype))

    def forward(self, x):
        return routed(x, self.router, self.count, self.top, self.capacity, self.multiplied)


class MoE(nn.Module):
    def __init__(self, layers, width=512, heads=8, vocab=32000):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.norm1, self.norm2 = (nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)]) for _ in range(2))
        self.heads = nn.ModuleList([Heads(width, heads, False, True, True) for _ in range(layers)])
        self.feed = nn.ModuleList([Experts(width) if i % 2 else feed(width, 4 * width, lambda: nn.GELU("tanh")) for i in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        logits, balance = self.predict(tokens[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()) + 0.01 * balance

    def predict(self, tokens):
        x, balance = self.words(tokens), 0
        for i, f in enumerate(self.feed):
            x = x + self.heads[i](self.norm1[i](x))
            y = f(self.norm2[i](x))
            if i % 2:
                y, b = y
                balance = balance + b
            x = x + y
        return self.head(self.norm(x)), balance


def moe():
    net = MoE(size(8, 2)).to(device)
    return net, net, (ints(32000, size(16, 2), size(513, 9)),), adamw(0.0003, 0.1)


# -- other data --------------------------------------------------------------------------------------------------------------------
class WaveNet(nn.Module):
    def __init__(self, w=64, levels=256):
        super().__init__()
        self.sample, self.gaps = nn.Embedding(levels, w), [2 ** i for _ in range(2) for i in range(10)]
        self.gate = nn.ModuleList([nn.Conv1d(w, 2 * w, 2, dilation=g) for g in self.gaps])
        self.skip = nn.ModuleList([nn.Conv1d(w, 2 * w, 1) for _ in self.gaps])
        self.out = nn.ModuleList([nn.Conv1d(w, w, 1) for _ in self.gaps[:-1]])
        self.head1, self.head2 = nn.Conv1d(2 * w, levels, 1), nn.Conv1d(levels, levels, 1)

    def forward(self, sound):
        return F.cross_entropy(self.predict(sound[:, :-1]).float(), sound[:, 1:])

    def predict(self, sound):
        x, skips = self.sample(sound).transpose(1, 2), 0
        for i, gap in enumerate(self.gaps):
            a, b = self.gate[i](F.pad(x, (gap, 0))).chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid(b)
            skips = skips + self.skip[i](h)
            if i < len(self.out):
                x = x + self.out[i](h)
        return self.head2(F.relu(self.head1(F.relu(skips))))


def wavenet():
    net = WaveNet().to(device)
    return net, net, (ints(256, size(8, 1), size(8193, 65)),), adam(0.001)


class GCN(nn.Module):
    def __init__(self, features=128, width=256, classes=40):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(features, width), nn.Linear(width, width), nn.Linear(width, classes)])

    def forward(self, x, begin, end, weight, label):
        return F.cross_entropy(self.predict(x, begin, end, weight).float(), label)

    def predict(self, x, begin, end, weight):
        for i, layer in enumerate(self.layers):
            h = layer(x)
            x = torch.zeros_like(h).index_add(0, end, h[begin] * weight[:, None].to(h.dtype))
            x = F.relu(x) if i < 2 else x
        return x


def gcn():
    nodes, edges = size(100000, 50), size(1000000, 200)
    net = GCN().to(device)
    return net, net, (rand(nodes, 128), ints(nodes, edges), ints(nodes, edges), rand(edges), ints(40, nodes)), adam(0.01)


class DLRM(nn.Module):
    def __init__(self, rows, tables=26, width=64):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])

        def mlp(*n):
            return nn.Sequential(*[m for a, b in zip(n, n[1:]) for m in (nn.Linear(a, b), nn.ReLU())])
        self.bottom, self.top = mlp(13, 512, 256, width), mlp(width + (tables + 1) * tables // 2, 512, 512, 256)
        self.last = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)

    def forward(self, dense, sparse, clicked):
        return F.binary_cross_entropy_with_logits(self.predict(dense, sparse).float(), clicked)

    def predict(self, dense, sparse):
        x = self.bottom(dense)
        both = torch.stack([x] + [t(sparse[:, i]).to(x.dtype) for i, t in enumerate(self.tables)], 1)
        dots = both @ both.transpose(1, 2)
        h = torch.cat([x, dots[:, self.pairs[0], self.pairs[1]]], -1)
        return self.last(self.top(h))[:, 0]


def dlrm():
    rows, batch = size(100000, 50), size(8192, 4)
    net = DLRM(rows).to(device)
    return net, net, (rand(batch, 13), ints(rows, batch, 26), ints(2, batch).float()), \
        lambda p: torch.optim.SGD(p, lr=0.1, fused=not tiny)


class Burgers(nn.Module):
    def __init__(self, width=64, layers=6):
        super().__init__()
        n = [2] + [width] * layers
        self.net = nn.Sequential(*[m for a, b in zip(n, n[1:]) for m in (nn.Linear(a, b), nn.Tanh())], nn.Linear(width, 1))

    def predict(self, x, t):
        return self.net(torch.stack([x, t], -1))[:, 0]

    def forward(self, x, t, x0):
        x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
        u = self.predict(x, t)
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        u_xx, = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        start = self.predict(x0, torch.zeros_like(x0)) + torch.sin(3.14159265 * x0)
        return ((u_t + u * u_x - 0.0031831 * u_xx) ** 2).mean() + (start ** 2).mean()


def pinn():
    batch = size(16384, 8)
    net = Burgers().to(device)
    return net, net, (rand(batch), rand(batch), rand(batch)), adam(0.001)


def tabular():
    n = [54] + [512] * 4
    net = nn.Sequential(*[m for a, b in zip(n, n[1:]) for m in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.1))], nn.Linear(512, 7)).to(device)
    return net, lambda x, y: F.cross_entropy(net(x), y), (rand(size(1024, 4), 54), ints(7, size(1024, 4))), adam(0.001)


IN_F32 = ["pinn", "tabular"]

if __name__ == "__main__":  # torch.compile has no second derivatives of a network's loss
    measure(globals(), in_f32=IN_F32, eager=["pinn"])
