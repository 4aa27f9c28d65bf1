#!/usr/bin/env python3
"""The training steps of those of bench/workloads/*.net whose structure is their own (recurrences, second derivatives, structured
losses) in PyTorch, like workloads_torch.py. Parameters have netc's names, but for the queries, keys and values of self
attention, which are one matrix here, and those of nn.LSTM. workloads_common.py says how it is used.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

from workloads_common import adam, adamw, clipped, device, ints, measure, rand, rotated, routed, size
from workloads_sequences_torch import MLP, Heads, SwiGLU


def texts(vocab, batch, T):
    return ints(vocab, batch, T + 1)


def loss_of(logits, tokens):
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def words_of(vocab, width):
    words = nn.Embedding(vocab, width)
    nn.init.normal_(words.weight, std=0.02)
    return words


# -- second derivatives ------------------------------------------------------------------------------------------------------------
class BatchScaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        # (written out: the second derivatives of F.batch_norm under vmap are wrong by 1e-3 of their size)
        v, m = torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
        return (x - m) * torch.rsqrt(v + 1e-5) * self.weight[:, None, None] + self.bias[:, None, None]


class FewShot(nn.Module):
    def __init__(self, levels, width, classes, side):
        super().__init__()
        self.conv = nn.ModuleList([nn.Conv2d(width if i else 3, width, 3, padding=1) for i in range(levels)])
        self.norm = nn.ModuleList([BatchScaled(width) for _ in range(levels)])
        self.head = nn.Linear(width * (side // 2 ** levels) ** 2, classes)

    def forward(self, x):
        for conv, norm in zip(self.conv, self.norm):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.head(x.permute(0, 2, 3, 1).flatten(1))


def maml():
    classes, side, tasks = 5, size(84, 12), size(4, 2)
    net = FewShot(size(4, 2), size(32, 4), classes, side).to(device)

    def task_loss(p, support, support_label, query, query_label):
        def inner(p):
            return F.cross_entropy(functional_call(net, p, support).float(), support_label)
        g = torch.func.grad(inner)(p)
        return F.cross_entropy(functional_call(net, {k: v - 0.01 * g[k] for k, v in p.items()}, query).float(), query_label)

    def loss(*data):
        return torch.vmap(task_loss, (None, 0, 0, 0, 0))(dict(net.named_parameters()), *data).mean()
    shots, queries = classes * size(5, 2), classes * size(15, 3)
    data = rand(tasks, shots, 3, side, side), ints(classes, tasks, shots), rand(tasks, queries, 3, side, side), ints(classes, tasks, queries)
    return net, loss, data, adam(0.001)


def shifted_softplus(x):
    return F.softplus(x) - math.log(2)


class Interaction(nn.Module):
    def __init__(self, width, centers):
        super().__init__()
        self.filter1, self.filter2 = nn.Linear(centers, width), nn.Linear(width, width)
        self.into, self.out1, self.out2 = nn.Linear(width, width, bias=False), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, f, reach, other):
        w = self.filter2(shifted_softplus(self.filter1(f))) * reach[..., None]
        return self.out2(shifted_softplus(self.out1((self.into(x)[other] * w).sum(1))))


class Energy(nn.Module):
    def __init__(self, width, layers, centers, molecules, cutoff=5.0):
        super().__init__()
        self.kinds, self.molecules, self.cutoff, self.centers = nn.Embedding(100, width), molecules, cutoff, centers
        self.layer = nn.ModuleList([Interaction(width, centers) for _ in range(layers)])
        self.head1, self.head2 = nn.Linear(width, width // 2), nn.Linear(width // 2, 1)

    def forward(self, kind, position, other, molecule):
        r = torch.sqrt(((position[other] - position[:, None]) ** 2).sum(-1) + 1e-6)
        gap = self.cutoff / (self.centers - 1)
        f = torch.exp(-0.5 / gap ** 2 * (r[..., None] - torch.arange(self.centers, device=r.device) * gap) ** 2)
        reach = torch.where(r < self.cutoff, 0.5 * (torch.cos(r * (math.pi / self.cutoff)) + 1), 0)
        x = self.kinds(kind)
        for layer in self.layer:
            x = x + layer(x, f, reach, other)
        each = self.head2(shifted_softplus(self.head1(x)))[:, 0]
        return torch.zeros(self.molecules, device=each.device).index_add(0, molecule, each)


class SchNet(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.net = Energy(*sizes)

    def forward(self, kind, position, other, molecule, right_energy, right_force):
        position = position.detach().requires_grad_()
        e = self.net(kind, position, other, molecule)
        force = -torch.autograd.grad(e.sum(), position, create_graph=True)[0]
        return 0.01 * F.mse_loss(e, right_energy) + F.mse_loss(force, right_force)


def schnet():
    atoms, near, molecules = size(4096, 12), size(32, 4), size(200, 3)
    net = SchNet(size(128, 8), size(3, 2), size(50, 6), molecules).to(device)
    data = ints(100, atoms), rand(atoms, 3), ints(atoms, atoms, near), ints(molecules, atoms), rand(molecules), rand(atoms, 3)
    return net, net, data, adam(5e-4)


# -- losses with a structure -------------------------------------------------------------------------------------------------------
class Along(nn.Module):
    def __init__(self, c, out, n, stride=1):
        super().__init__()
        self.depth, self.point = nn.Conv1d(c, c, n, stride, n // 2, groups=c, bias=False), nn.Conv1d(c, out, 1, bias=False)
        self.norm = nn.BatchNorm1d(out)

    def forward(self, x):
        return self.norm(self.point(self.depth(x)))


class ResidualGroup(nn.Module):
    def __init__(self, c, out, n, repeats):
        super().__init__()
        self.part = nn.ModuleList([Along(out if i else c, out, n) for i in range(repeats)])
        self.point, self.norm = nn.Conv1d(c, out, 1, bias=False), nn.BatchNorm1d(out)

    def forward(self, x):
        h = x
        for i, part in enumerate(self.part):
            h = part(F.relu(h) if i else h)
        return F.relu(h + self.norm(self.point(x)))


class Speech(nn.Module):
    def __init__(self, bands, width, layers, repeats, letters):
        super().__init__()
        n = [width * (1 if i < 3 else 2) for i in range(layers)]
        self.first = Along(bands, width, 33, 2)
        self.group = nn.ModuleList([ResidualGroup(c, out, 33 + 6 * i, repeats) for i, (c, out) in enumerate(zip([width] + n, n))])
        self.last, self.head = Along(n[-1], 2 * width, 87), nn.Linear(2 * width, letters)

    def forward(self, sound, frames, label, length):
        x = F.relu(self.first(sound))
        for group in self.group:
            x = group(x)
        likely = F.log_softmax(self.head(F.relu(self.last(x)).transpose(1, 2)).float(), -1)
        return F.ctc_loss(likely.transpose(0, 1), label, frames, length)


def ctc():
    bands, letters, batch, T, S = size(64, 6), size(29, 7), size(32, 3), size(1024, 40), size(128, 5)
    net = Speech(bands, size(256, 8), size(5, 2), size(3, 2), letters).to(device)
    data = rand(batch, bands, T), T // 4 + ints(T // 4 + 1, batch), 1 + ints(letters - 1, batch, S), S // 2 + ints(S // 2 + 1, batch)
    return net, net, data, adamw(1e-3, 0.001)


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.first, self.last = (nn.Parameter(0.1 * torch.randn(tags)) for _ in range(2))
        self.next = nn.Parameter(0.1 * torch.randn(tags, tags))

    def forward(self, score, tag, length):
        inside = length[:, None] > torch.arange(tag.shape[1], device=tag.device)
        own = score.gather(-1, tag[..., None])[..., 0]
        moves = self.next[tag[:, :-1], tag[:, 1:]]
        end = tag.gather(1, length[:, None] - 1)[:, 0]
        path = self.first[tag[:, 0]] + (own * inside).sum(1) + (moves * inside[:, 1:]).sum(1) + self.last[end]
        a = self.first + score[:, 0]
        for t in range(1, score.shape[1]):
            b = torch.logsumexp(a[:, :, None] + self.next, 1) + score[:, t]
            a = torch.where(inside[:, t, None], b, a)
        return torch.logsumexp(a + self.last, -1) - path


class Tagger(nn.Module):
    def __init__(self, vocab, width, hidden, tags, drop):
        super().__init__()
        self.words, self.drop = nn.Embedding(vocab, width), drop
        nn.init.normal_(self.words.weight, std=0.1)
        self.lstm = nn.LSTM(width, hidden, bidirectional=True, batch_first=True)
        self.score, self.crf = nn.Linear(2 * hidden, tags), CRF(tags)

    def forward(self, words, tag, length):
        h, _ = self.lstm(F.dropout(self.words(words), self.drop))
        return self.crf(self.score(F.dropout(h, self.drop)).float(), tag, length).mean()


def crf():
    vocab, tags, batch, T = size(30000, 40), size(17, 5), size(64, 3), size(64, 7)
    net = Tagger(vocab, size(128, 12), size(256, 8), tags, size(0.3, 0.0)).to(device)
    return net, net, (ints(vocab, batch, T), ints(tags, batch, T), 1 + ints(T, batch)), clipped(5.0, adam(1e-3))


# -- texts -------------------------------------------------------------------------------------------------------------------------
def decayed(x, a):
    """h[:, t] = a h[:, t - 1] + x[:, t] of x (B, T, C), a (C), in log2 T passes."""
    k, T = 1, x.shape[1]
    while k < T:
        x = torch.cat([x[:, :k], torch.addcmul(x[:, k:], a, x[:, :-k])], 1)
        a, k = a * a, 2 * k
    return x


def wkv(k, v, decay, bonus):
    """The mean of v so far by weights exp(k) that decay; relative to the largest exponent of each channel."""
    top = torch.maximum(k, k + bonus).amax(1, keepdim=True).detach()
    weight, a = torch.exp(k - top), torch.exp(decay)
    num, den = (F.pad(decayed(x, a)[:, :-1], (0, 0, 1, 0)) for x in (weight * v, weight))
    now = torch.exp(bonus + k - top)
    return (num + now * v) / (den + now)


class Mixed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.share = nn.Parameter(torch.rand(width))

    def forward(self, x, before):
        return torch.lerp(before, x, self.share.to(x.dtype))


class TimeMix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix_k, self.mix_v, self.mix_r = (Mixed(width) for _ in range(3))
        self.key, self.value, self.receptance, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.decay, self.bonus = nn.Parameter(torch.rand(width) * 7 - 6), nn.Parameter(-torch.rand(width))

    def forward(self, x):
        before = F.pad(x[:, :-1], (0, 0, 1, 0))
        k, v = self.key(self.mix_k(x, before)).float(), self.value(self.mix_v(x, before)).float()
        r = torch.sigmoid(self.receptance(self.mix_r(x, before)))
        return self.out(r * wkv(k, v, -torch.exp(self.decay), self.bonus))


class ChannelMix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix_k, self.mix_r = Mixed(width), Mixed(width)
        self.key, self.receptance, self.value = (nn.Linear(a, b, bias=False) for a, b in
                                                 [(width, 4 * width), (width, width), (4 * width, width)])

    def forward(self, x):
        before = F.pad(x[:, :-1], (0, 0, 1, 0))
        return torch.sigmoid(self.receptance(self.mix_r(x, before))) * self.value(F.relu(self.key(self.mix_k(x, before))) ** 2)


class RWKV(nn.Module):
    def __init__(self, layers, width, vocab):
        super().__init__()
        self.words, self.first = words_of(vocab, width), nn.LayerNorm(width)
        self.norm1, self.norm2 = (nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)]) for _ in range(2))
        self.time, self.channel = (nn.ModuleList([part(width) for _ in range(layers)]) for part in (TimeMix, ChannelMix))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.first(self.words(tokens[:, :-1]))
        for norm1, time, norm2, channel in zip(self.norm1, self.time, self.norm2, self.channel):
            x = x + time(norm1(x))
            x = x + channel(norm2(x))
        return loss_of(self.head(self.last(x)), tokens)


def rwkv():
    vocab = size(32000, 50)
    net = RWKV(size(6, 2), size(768, 24), vocab).to(device)
    return net, net, (texts(vocab, size(8, 2), size(1024, 16)),), adamw(6e-4, 0.01)


class Retain(nn.Module):
    def __init__(self, width, heads, chunk):
        super().__init__()
        self.query, self.key, self.value, self.gate, self.out = (nn.Linear(a * width, b * width, bias=False) for a, b in
                                                                 [(1, 1), (1, 1), (1, 2), (1, 2), (2, 1)])
        self.heads, self.chunk = heads, chunk
        rate = torch.log(1 - 2.0 ** (-5 - torch.arange(heads)))[:, None, None]
        at = torch.arange(chunk).float()
        behind = at[:, None] - at
        self.register_buffer("decay", torch.where(behind >= 0, torch.exp(behind * rate), 0), persistent=False)
        self.register_buffer("into", torch.exp((at[:, None] + 1) * rate), persistent=False)
        self.register_buffer("onto", torch.exp((chunk - 1 - at[:, None]) * rate), persistent=False)
        self.register_buffer("across", torch.exp(chunk * rate), persistent=False)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        q, k = rotated(q), rotated(k) / math.sqrt(q.shape[-1])
        s, ys = 0, []
        for qi, ki, vi in zip(*(a.split(self.chunk, 2) for a in (q, k, v))):
            y = (qi @ ki.transpose(-1, -2) * self.decay) @ vi
            if ys:
                y = y + (qi * self.into) @ s
            s = s * self.across + (ki * self.onto).transpose(-1, -2) @ vi
            ys.append(y)
        y = torch.cat(ys, 2).transpose(1, 2)
        y = F.layer_norm(y, y.shape[-1:]).flatten(2)
        return self.out(F.silu(self.gate(x)) * y)


class RetentionLayer(nn.Module):
    def __init__(self, width, heads, chunk):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.ff = Retain(width, heads, chunk), MLP(width, 2 * width, F.gelu)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class RetNet(nn.Module):
    def __init__(self, layers, width, heads, chunk, vocab):
        super().__init__()
        self.words, self.layer = words_of(vocab, width), nn.ModuleList([RetentionLayer(width, heads, chunk) for _ in range(layers)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.words(tokens[:, :-1])
        for layer in self.layer:
            x = layer(x)
        return loss_of(self.head(self.last(x)), tokens)


def retnet():
    vocab = size(32000, 50)
    net = RetNet(size(6, 2), size(1024, 32), size(4, 2), size(256, 4), vocab).to(device)
    return net, net, (texts(vocab, size(4, 2), size(2048, 12)),), adamw(3e-4, 0.05, betas=(0.9, 0.98))


class LatentAttention(nn.Module):
    def __init__(self, width, heads, latent, own, turned):
        super().__init__()
        self.query, self.down = nn.Linear(width, heads * (own + turned), bias=False), nn.Linear(width, latent + turned, bias=False)
        self.norm, self.up = nn.RMSNorm(latent, 1e-5), nn.Linear(latent, heads * 2 * own, bias=False)
        self.out, self.heads, self.sizes = nn.Linear(heads * own, width, bias=False), heads, (latent, own, turned)

    def forward(self, x):
        latent, own, turned = self.sizes
        q_own, q_turned = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2).split([own, turned], -1)
        c, k_turned = self.down(x).split([latent, turned], -1)
        k_own, v = self.up(self.norm(c)).unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(2, -1)
        k_turned = rotated(k_turned[:, None]).expand(-1, self.heads, -1, -1)
        q, k = torch.cat([q_own, rotated(q_turned)], -1), torch.cat([k_own, k_turned.to(k_own.dtype)], -1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class GatedExperts(nn.Module):
    """As std/transformer.net's experts: rows of the same capacity for each."""
    def __init__(self, width, count, hidden, top, capacity=1.25):
        super().__init__()
        self.router, self.count, self.top, self.capacity = nn.Linear(width, count, bias=False), count, top, capacity
        self.gate, self.up, self.down = (nn.Parameter((torch.rand(count, a, b) * 2 - 1) / math.sqrt(b)) for a, b in
                                         [(hidden, width), (hidden, width), (width, hidden)])

    def multiplied(self, rows):
        gate, up, down = (w.to(rows.dtype).transpose(1, 2) for w in (self.gate, self.up, self.down))
        return torch.bmm(F.silu(torch.bmm(rows, gate)) * torch.bmm(rows, up), down)

    def forward(self, x):
        return routed(x, self.router, self.count, self.top, self.capacity, self.multiplied)


class DeepSeek(nn.Module):
    def __init__(self, layers, width, heads, latent, own, turned, hidden, count, top, first, vocab):
        super().__init__()
        self.words = words_of(vocab, width)
        self.norm1, self.norm2 = (nn.ModuleList([nn.RMSNorm(width, 1e-5) for _ in range(layers)]) for _ in range(2))
        self.attn = nn.ModuleList([LatentAttention(width, heads, latent, own, turned) for _ in range(layers)])
        self.ff = SwiGLU(width, first)
        self.experts = nn.ModuleDict({str(i): GatedExperts(width, count, hidden, top) for i in range(1, layers)})
        self.shared = nn.ModuleDict({str(i): SwiGLU(width, 2 * hidden) for i in range(1, layers)})
        self.last, self.head = nn.RMSNorm(width, 1e-5), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x, balance = self.words(tokens[:, :-1]), 0
        for i, (norm1, attn, norm2) in enumerate(zip(self.norm1, self.attn, self.norm2)):
            x = x + attn(norm1(x))
            h = norm2(x)
            if i == 0:
                x = x + self.ff(h)
            else:
                y, b = self.experts[str(i)](h)
                x, balance = x + y + self.shared[str(i)](h), balance + b
        return loss_of(self.head(self.last(x)), tokens) + 0.003 * balance


def mla():
    vocab = size(32000, 50)
    net = DeepSeek(size(6, 2), size(1024, 32), size(16, 2), size(256, 12), size(64, 8), size(32, 4), size(512, 16), size(32, 4), size(4, 2),
                   size(2816, 40), vocab).to(device)
    return net, net, (texts(vocab, size(8, 2), size(1024, 12)),), clipped(1.0, adamw(4e-4, 0.1, betas=(0.9, 0.95)))


def sinusoidal(count, width):
    i = torch.arange(width)
    turns = torch.arange(count)[:, None] * torch.exp((i // 2 * 2) * (-math.log(10000) / width))
    return torch.where(i % 2 == 0, turns.sin(), turns.cos())


class Layer(nn.Module):
    """A layer of a transformer that sees another text behind itself, if `over`."""
    def __init__(self, width, heads, hidden, bias=True, causal=False, over=False):
        super().__init__()
        self.attn, self.ff = Heads(width, heads, bias=bias, causal=causal), MLP(width, hidden, F.gelu)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        if over:
            self.cross, self.norm3 = Heads(width, heads, bias=bias, over=True), nn.LayerNorm(width)

    def forward(self, x, other=None):
        x = x + self.attn(self.norm1(x))
        if other is None:
            return x + self.ff(self.norm2(x))
        x = x + self.cross(self.norm2(x), other)
        return x + self.ff(self.norm3(x))


class Whisper(nn.Module):
    def __init__(self, bands, frames, T, width, heads, layers, vocab):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, padding=1)
        self.register_buffer("places", sinusoidal(frames // 2, width), persistent=False)
        self.encoder = nn.ModuleList([Layer(width, heads, 4 * width) for _ in range(layers)])
        self.decoder = nn.ModuleList([Layer(width, heads, 4 * width, causal=True, over=True) for _ in range(layers)])
        self.encoded, self.last, self.words = nn.LayerNorm(width), nn.LayerNorm(width), words_of(vocab, width)
        self.place = nn.Parameter(0.01 * torch.randn(T, width))

    def forward(self, sound, tokens):
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2) + self.places
        for layer in self.encoder:
            x = layer(x)
        x = self.encoded(x)
        y = self.words(tokens[:, :-1]) + self.place
        for layer in self.decoder:
            y = layer(y, x)
        return loss_of(F.linear(self.last(y), self.words.weight), tokens)


def whisper():
    bands, frames, T, vocab, batch = size(80, 8), size(3000, 24), size(224, 10), size(51865, 50), size(8, 2)
    net = Whisper(bands, frames, T, size(512, 24), size(8, 2), size(6, 2), vocab).to(device)
    return net, net, (rand(batch, bands, frames), texts(vocab, batch, T)), clipped(1.0, adamw(1e-3, 0.1, betas=(0.9, 0.98), eps=1e-6))


if __name__ == "__main__":  # torch.compile has no second derivatives of a network's loss
    measure(globals(), in_f32=["maml", "schnet", "crf"], eager=["schnet"])
