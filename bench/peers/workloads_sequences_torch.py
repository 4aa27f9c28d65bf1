#!/usr/bin/env python3
"""The training steps of those of bench/workloads/*.net that are sequences, graphs, rays and points in PyTorch, like workloads_torch.py.
Parameters have netc's names, but for the queries, keys and values of self attention, which are one matrix here. workloads_common.py says
how it is used.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from workloads_common import adam, adamw, clipped, device, ints, measure, rand, rotated, sgd, size


# -- texts -------------------------------------------------------------------------------------------------------------------------
class Heads(nn.Module):
    """Attention of x to itself, or to another text if `over`."""
    def __init__(self, width, heads, kv_heads=None, over=False, bias=False, causal=False, rope=False):
        super().__init__()
        kv_heads = kv_heads or heads
        d = width // heads
        self.d, self.over, self.causal, self.rope, self.grouped = d, over, causal, rope, kv_heads != heads
        self.sizes = [width, d * kv_heads, d * kv_heads]
        if over:
            self.query, self.kv = nn.Linear(width, width, bias=bias), nn.Linear(width, 2 * d * kv_heads, bias=bias)
        else:
            self.qkv = nn.Linear(width, sum(self.sizes), bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x, other=None, mask=None):
        if self.over:
            q, (k, v) = self.query(x), self.kv(other).split(self.sizes[1:], -1)
        else:
            q, k, v = self.qkv(x).split(self.sizes, -1)
        q, k, v = (a.unflatten(-1, (-1, self.d)).transpose(1, 2) for a in (q, k, v))
        if self.rope:
            q, k = rotated(q), rotated(k)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=self.grouped)
        return self.out(y.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in [(width, hidden), (width, hidden), (hidden, width)])

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MLP(nn.Module):
    def __init__(self, width, hidden, act):
        super().__init__()
        self.up, self.down, self.act = nn.Linear(width, hidden), nn.Linear(hidden, width), act

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.norm1, self.attn = nn.RMSNorm(width, 1e-5), Heads(width, heads, kv_heads, causal=True, rope=True)
        self.norm2, self.ff = nn.RMSNorm(width, 1e-5), SwiGLU(width, hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, kv_heads, hidden, vocab):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layer = nn.ModuleList([LlamaLayer(width, heads, kv_heads, hidden) for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(width, 1e-5), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.words(tokens[:, :-1])
        for layer in self.layer:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), tokens[:, 1:].flatten())


def llama():
    vocab = size(32000, 50)
    net = Llama(size(12, 2), size(1024, 32), size(16, 4), size(4, 2), size(2816, 48), vocab).to(device)
    return net, net, (ints(vocab, size(4, 2), size(2049, 13)),), clipped(1.0, adamw(3e-4, 0.1, betas=(0.9, 0.95)))


class GPTLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Heads(width, heads, bias=True, causal=True)
        self.norm2, self.ff = nn.LayerNorm(width), MLP(width, 4 * width, lambda x: F.gelu(x, approximate="tanh"))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, vocab, T):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, width), nn.Parameter(torch.randn(T, width) * 0.01)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layer = nn.ModuleList([GPTLayer(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.words(tokens[:, :-1]) + self.places
        for layer in self.layer:
            x = layer(x)
        return F.cross_entropy(F.linear(self.norm(x), self.words.weight).float().flatten(0, 1), tokens[:, 1:].flatten())


def gpt2_xl():
    vocab, T = size(50304, 61), size(1024, 17)
    with torch.device(device):
        net = GPT(size(48, 2), size(1600, 48), size(25, 3), vocab, T)
    return net, net, (ints(vocab, size(8, 2), T + 1),), adamw(6e-4, 0.1)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.attn, self.ff, self.drop = Heads(width, heads), MLP(width, 4 * width, F.relu), drop
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        x = self.norm1(x + F.dropout(self.attn(x, mask=mask), self.drop))
        return self.norm2(x + F.dropout(self.ff(x), self.drop))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.attn, self.cross, self.ff = Heads(width, heads, causal=True), Heads(width, heads, over=True), MLP(width, 4 * width, F.relu)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.drop = drop

    def forward(self, x, other, mask):
        x = self.norm1(x + F.dropout(self.attn(x), self.drop))
        x = self.norm2(x + F.dropout(self.cross(x, other, mask), self.drop))
        return self.norm3(x + F.dropout(self.ff(x), self.drop))


class Translator(nn.Module):
    def __init__(self, layers, width, heads, vocab, T, drop):
        super().__init__()
        self.words, self.width, self.drop = nn.Embedding(vocab, width), width, drop
        nn.init.normal_(self.words.weight, std=width ** -0.5)
        self.encoder = nn.ModuleList([EncoderLayer(width, heads, drop) for _ in range(layers)])
        self.decoder = nn.ModuleList([DecoderLayer(width, heads, drop) for _ in range(layers)])
        i = torch.arange(width)
        turns = torch.arange(T)[:, None] * torch.exp((i // 2 * 2) * (-math.log(10000) / width))
        self.register_buffer("places", torch.where(i % 2 == 0, turns.sin(), turns.cos()), persistent=False)

    def forward(self, source, length, target, target_length):
        T = source.shape[1]
        at = torch.arange(T, device=source.device)
        mask = (length[:, None] > at)[:, None, None]
        x = F.dropout(self.words(source) * math.sqrt(self.width) + self.places, self.drop)
        for layer in self.encoder:
            x = layer(x, mask)
        y = F.dropout(self.words(target[:, :T]) * math.sqrt(self.width) + self.places, self.drop)
        for layer in self.decoder:
            y = layer(y, x, mask)
        right = torch.where(target_length[:, None] > at, target[:, 1:], -100)
        return F.cross_entropy(F.linear(y, self.words.weight).float().flatten(0, 1), right.flatten(), label_smoothing=0.1)


def translate():
    vocab, width, T, batch = size(32000, 50), size(512, 32), size(128, 12), size(64, 3)
    net = Translator(size(6, 2), width, size(8, 4), vocab, T, size(0.1, 0.0)).to(device)
    data = ints(vocab, batch, T), 1 + ints(T, batch), ints(vocab, batch, T + 1), 1 + ints(T, batch)
    return net, net, data, adam(width ** -0.5 * 4000 ** -1.5, betas=(0.9, 0.98), eps=1e-9)  # the first step's rate


class LSTMs(nn.Module):
    def __init__(self, width, vocab, batch, drop):
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(vocab, width), nn.LSTM(width, width, 2, batch_first=True, dropout=drop), nn.Linear(width, vocab)
        self.drop = drop
        for name in "hc":
            self.register_buffer(name, torch.zeros(2, batch, width), persistent=False)

    def forward(self, text):
        x, (h, c) = self.lstm(F.dropout(self.words(text[:, :-1]), self.drop), (self.h.clone(), self.c.clone()))
        self.h.copy_(h.detach())
        self.c.copy_(c.detach())
        return F.cross_entropy(self.out(F.dropout(x, self.drop)).float().flatten(0, 1), text[:, 1:].flatten())


def lstm_lm():
    vocab, batch = size(10000, 50), size(64, 3)
    net = LSTMs(size(1024, 24), vocab, batch, size(0.5, 0.0)).to(device)
    return net, net, (ints(vocab, batch, size(65, 9)),), clipped(5.0, sgd(1.0, 0))


def recurrence(a, x):
    """h[:, t] = a[:, t] h[:, t - 1] + x[:, t], in log2 T passes."""
    k, T = 1, x.shape[1]
    while k < T:
        x = torch.cat([x[:, :k], torch.addcmul(x[:, k:], a[:, k:], x[:, :-k])], 1)
        a = torch.cat([a[:, :k], a[:, k:] * a[:, :-k]], 1)
        k *= 2
    return x


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x):
        h = recurrence(a, x)
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx, dh):
        a, h = ctx.saved_tensors
        later = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], 1)
        dx = recurrence(later.flip(1), dh.flip(1)).flip(1)
        return dx * torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1), dx


class MambaBlock(nn.Module):
    def __init__(self, width, state=16):
        super().__init__()
        inner, self.rank, self.state = 2 * width, width // 16, state
        self.into = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner)
        self.select, self.rate = nn.Linear(inner, self.rank + 2 * state, bias=False), nn.Linear(self.rank, inner)
        self.a_log, self.skip = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1)), nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        u, z = self.into(x).chunk(2, -1)
        u = F.silu(self.conv(F.pad(u.transpose(1, 2), (3, 0))).transpose(1, 2)).float()
        small, b, c = self.select(u).split([self.rank, self.state, self.state], -1)
        rate = F.softplus(self.rate(small).float())
        b, c = b.float(), c.float()
        h = Recurrence.apply(torch.exp(rate[..., None] * -torch.exp(self.a_log)), (rate * u)[..., None] * b[:, :, None])
        y = (h * c[:, :, None]).sum(-1) + u * self.skip
        return self.out(y * F.silu(z))


class Mamba(nn.Module):
    def __init__(self, layers, width, vocab):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.norm = nn.ModuleList([nn.RMSNorm(width, 1e-5) for _ in range(layers)])
        self.layer, self.last = nn.ModuleList([MambaBlock(width) for _ in range(layers)]), nn.RMSNorm(width, 1e-5)

    def forward(self, tokens):
        x = self.words(tokens[:, :-1])
        for norm, layer in zip(self.norm, self.layer):
            x = x + layer(norm(x))
        return F.cross_entropy(F.linear(self.last(x), self.words.weight).float().flatten(0, 1), tokens[:, 1:].flatten())


def mamba():
    vocab = size(32000, 50)
    net = Mamba(size(8, 2), size(512, 32), vocab).to(device)
    return net, net, (ints(vocab, size(8, 2), size(1025, 21)),), adamw(6e-4, 0.1)


# -- sound -------------------------------------------------------------------------------------------------------------------------
class Feed(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.norm, self.mlp, self.drop = nn.LayerNorm(width), MLP(width, 4 * width, F.silu), drop

    def forward(self, x):
        return F.dropout(self.mlp(self.norm(x)), self.drop)


class See(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.norm, self.attn, self.drop = nn.LayerNorm(width), Heads(width, heads, bias=True), drop

    def forward(self, x):
        return F.dropout(self.attn(self.norm(x)), self.drop)


class Along(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.norm, self.gate, self.out, self.drop = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(width, width), drop
        self.conv, self.bn = nn.Conv1d(width, width, 31, padding=15, groups=width), nn.BatchNorm1d(width)

    def forward(self, x):
        h = F.glu(self.gate(self.norm(x)))
        h = F.silu(self.bn(self.conv(h.transpose(1, 2)))).transpose(1, 2)
        return F.dropout(self.out(h), self.drop)


class ConformerLayer(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.before, self.see, self.along, self.after = Feed(width, drop), See(width, heads, drop), Along(width, drop), Feed(width, drop)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.before(x)
        x = x + self.see(x)
        x = x + self.along(x)
        return self.norm(x + 0.5 * self.after(x))


def conformer():
    width, classes, batch, T, drop = size(256, 32), size(128, 10), size(16, 2), size(512, 40), size(0.1, 0.0)

    class Conformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.start, self.head = nn.Linear(80, width), nn.Linear(width, classes)
            self.layer = nn.ModuleList([ConformerLayer(width, 4, drop) for _ in range(size(8, 2))])

        def forward(self, sound, label):
            x = self.start(sound)
            for layer in self.layer:
                x = layer(x)
            return F.cross_entropy(self.head(x).float().flatten(0, 1), label.flatten())
    net = Conformer().to(device)
    return net, net, (rand(batch, T, 80), ints(classes, batch, T)), adamw(5e-4, 0.01)


# -- graphs and points -------------------------------------------------------------------------------------------------------------
class GraphAttention(nn.Module):
    def __init__(self, features, heads, width):
        super().__init__()
        self.project, self.heads = nn.Linear(features, heads * width, bias=False), heads
        self.begins, self.ends = (nn.Parameter(0.1 * torch.randn(heads, width)) for _ in range(2))

    def forward(self, x, begin, end):
        h = self.project(x).unflatten(-1, (self.heads, -1))
        score = F.leaky_relu((h * self.begins).sum(-1)[begin] + (h * self.ends).sum(-1)[end], 0.2)
        places = end[:, None].expand(-1, self.heads)
        largest = torch.full((len(x), self.heads), -torch.inf, device=x.device).scatter_reduce(0, places, score.detach().float(), "amax")
        weight = torch.exp(score - largest[end])
        total = torch.zeros(len(x), self.heads, device=x.device).index_add(0, end, weight)
        each = h[begin] * (weight / total[end])[..., None].to(h.dtype)
        return torch.zeros_like(h).index_add(0, end, each).flatten(1)


class GAT(nn.Module):
    def __init__(self, features=128, heads=4, width=32, classes=40):
        super().__init__()
        self.first, self.second = GraphAttention(features, heads, width), GraphAttention(heads * width, heads, width)
        self.third = GraphAttention(heads * width, 1, classes)

    def forward(self, x, begin, end, label):
        h = F.elu(self.first(x, begin, end))
        h = F.elu(self.second(h, begin, end))
        return F.cross_entropy(self.third(h, begin, end).float(), label)


def gat():
    nodes, edges = size(100000, 50), size(1000000, 200)
    net = GAT().to(device)
    return net, net, (rand(nodes, 128), ints(nodes, edges), ints(nodes, edges), ints(40, nodes)), adam(0.005)


class Part(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.linear, self.norm = nn.Linear(c, out, bias=False), nn.BatchNorm1d(out)

    def forward(self, x):
        h = self.linear(x)
        return F.leaky_relu(self.norm(h.flatten(0, -2)).view(h.shape), 0.2)


class EdgeConv(Part):
    def __init__(self, c, out, near=16):
        super().__init__(2 * c, out)
        self.near = near

    def forward(self, x):
        with torch.no_grad():
            n = (x * x).sum(-1)
            at = (n[:, :, None] + n[:, None] - 2 * x @ x.transpose(1, 2)).topk(self.near, largest=False)[1]
        other = x[torch.arange(len(x), device=x.device)[:, None, None], at]
        here = x[:, :, None].expand_as(other)
        return super().forward(torch.cat([other - here, here], -1)).amax(2)


class DGCNN(nn.Module):
    def __init__(self, widths, wide, near, drop, classes=40):
        super().__init__()
        self.edges = nn.ModuleList([EdgeConv(c, out, near) for c, out in zip([3] + widths, widths)])
        self.join, self.part = Part(sum(widths), wide), nn.ModuleList([Part(2 * wide, 512), Part(512, 256)])
        self.head, self.drop = nn.Linear(256, classes), drop

    def forward(self, x, label):
        levels = []
        for edges in self.edges:
            x = edges(x)
            levels.append(x)
        x = self.join(torch.cat(levels, -1))
        x = torch.cat([x.amax(1), x.mean(1)], -1)
        for part in self.part:
            x = F.dropout(part(x), self.drop)
        return F.cross_entropy(self.head(x).float(), label, label_smoothing=0.2)


def pointnet():
    batch, points = size(16, 4), size(1024, 20)
    net = DGCNN([64, 64, 128, 256], size(1024, 32), size(16, 4), size(0.5, 0.0)).to(device)
    return net, net, (rand(batch, points, 3), ints(40, batch)), adam(0.001)


# -- other data --------------------------------------------------------------------------------------------------------------------
class Three(nn.Module):
    def __init__(self, features, width, out, act):
        super().__init__()
        self.first, self.second, self.third, self.act = nn.Linear(features, width), nn.Linear(width, width), nn.Linear(width, out), act

    def forward(self, x):
        return self.third(self.act(self.second(self.act(self.first(x)))))


class Flow(nn.Module):
    def __init__(self, layers, features, width):
        super().__init__()
        self.layer = nn.ModuleList([Three(features // 2, width, features, F.relu) for _ in range(layers)])

    def forward(self, x):
        volume, features = 0, x.shape[1]
        for layer in self.layer:
            a, b = x.chunk(2, -1)
            scale, move = layer(a).float().chunk(2, -1)
            scale = torch.tanh(scale)
            x, volume = torch.cat([b * torch.exp(scale) + move, a], -1), volume + scale.sum(-1)
        return (0.5 * (x * x).sum(-1) + 0.5 * features * math.log(2 * math.pi) - volume).mean()


def flow():
    features = size(64, 6)
    net = Flow(size(8, 3), features, size(512, 16)).to(device)
    return net, net, (rand(size(4096, 5), features),), adam(1e-4)


def waves(x, n):
    return torch.cat([x] + [f(x * 2 ** i) for i in range(n) for f in (torch.sin, torch.cos)], -1)


class Field(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        inputs = [63] + [width + 63 * (i == layers // 2) for i in range(1, layers)]
        self.layer = nn.ModuleList([nn.Linear(n, width) for n in inputs])
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.view, self.color = nn.Linear(width + 27, width // 2), nn.Linear(width // 2, 3)

    def forward(self, at, direction):
        start = h = waves(at, 10)
        for i, layer in enumerate(self.layer):
            h = F.relu(layer(torch.cat([start, h], -1) if i == len(self.layer) // 2 else h))
        density = F.relu(self.density(h)[..., 0])
        seen = waves(direction, 4)[:, None].expand(-1, at.shape[1], -1)
        h = F.relu(self.view(torch.cat([self.feature(h), seen], -1)))
        return torch.sigmoid(self.color(h)), density


class Nerf(nn.Module):
    def __init__(self, layers, width, samples, jitter):
        super().__init__()
        self.field, self.samples, self.jitter = Field(layers, width), samples, jitter

    def forward(self, origin, direction, pixel):
        n, batch = self.samples, len(origin)
        t = 2 + 4 * (torch.arange(n, device=origin.device) + self.jitter * torch.rand(batch, n, device=origin.device)) / n
        gap = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 0.1)], 1)
        color, density = self.field(origin[:, None] + direction[:, None] * t[..., None], direction)
        alpha = 1 - torch.exp(-density * gap)
        left = torch.cumprod(1 - alpha + 1e-10, 1)
        weight = alpha * torch.cat([torch.ones_like(left[:, :1]), left[:, :-1]], 1)
        return F.mse_loss((weight[..., None] * color).sum(1), pixel)


def nerf():
    batch = size(4096, 5)
    net = Nerf(size(8, 4), size(256, 16), size(64, 7), size(1.0, 0.0)).to(device)
    return net, net, (rand(batch, 3), rand(batch, 3), rand(batch, 3)), adam(5e-4)


def advantages(reward, going, value):
    error = reward + 0.99 * value[:, 1:] * going - value[:, :-1]
    each, total = [], torch.zeros_like(reward[:, 0])
    for t in reversed(range(reward.shape[1])):
        total = error[:, t] + 0.99 * 0.95 * going[:, t] * total
        each.append(total)
    return torch.stack(each[::-1], 1)


class ActorCritic(nn.Module):
    def __init__(self, features, width, actions):
        super().__init__()
        self.actor, self.critic = Three(features, width, actions, torch.tanh), Three(features, width, 1, torch.tanh)

    def forward(self, seen, action, reward, going, old_value, old_log):
        gain = advantages(reward, going, old_value)
        goal = gain + old_value[:, :-1]
        gain = (gain - gain.mean()) * torch.rsqrt(gain.var(correction=0) + 1e-8)
        likely = F.log_softmax(self.actor(seen), -1)
        ratio = torch.exp(likely.gather(-1, action[..., None])[..., 0] - old_log)
        policy = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        entropy = -(likely.exp() * likely).sum(-1).mean()
        return policy + 0.5 * F.mse_loss(self.critic(seen)[..., 0], goal) - 0.01 * entropy


def ppo():
    batch, T, features, actions = size(64, 3), size(128, 7), size(64, 6), size(8, 4)
    net = ActorCritic(features, size(256, 16), actions).to(device)
    data = rand(batch, T, features), ints(actions, batch, T), rand(batch, T), (rand(batch, T) > -1.5).float(), rand(batch, T + 1), \
        -2 + 0.1 * rand(batch, T)
    return net, net, data, clipped(0.5, adam(3e-4, eps=1e-5))


if __name__ == "__main__":
    measure(globals(), in_f32=["flow", "nerf", "ppo", "pointnet"])
