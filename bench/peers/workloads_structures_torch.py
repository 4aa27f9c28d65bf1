#!/usr/bin/env python3
"""The training steps of those of bench/workloads/*.net whose structure is their own (recurrences, second derivatives, structured losses,
operators, agents) in PyTorch, like workloads_torch.py. Parameters have netc's names, but for the queries, keys and values of self
attention, which are one matrix here, and those of nn.LSTM. workloads_common.py says how it is used.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

from workloads_common import adam, adamw, clipped, device, ints, measure, rand, rotated, sgd, size
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

    def forward(self, x):
        flat = x.flatten(0, 1)
        n, c = flat.shape
        room = math.ceil(self.capacity * self.top * n / self.count)
        likely = self.router(flat).float().softmax(-1)
        share, chosen = likely.topk(self.top, -1)
        share, chosen = (share / share.sum(-1, keepdim=True)).t().flatten(), chosen.t().flatten()
        hot = F.one_hot(chosen, self.count)
        place = ((hot.cumsum(0) - hot) * hot).sum(-1)
        fits = place < room
        slot = torch.where(fits, chosen * room + place, self.count * room)
        token = torch.zeros(self.count * room + 1, dtype=torch.long, device=x.device).scatter(0, slot, torch.arange(self.top * n, device=x.device) % n)
        rows = flat[token[:-1]].view(self.count, room, c)
        gate, up, down = (w.to(rows.dtype).transpose(1, 2) for w in (self.gate, self.up, self.down))
        h = F.silu(torch.bmm(rows, gate)) * torch.bmm(rows, up)
        made = torch.bmm(h, down.to(h.dtype)).flatten(0, 1)[slot.clamp(max=self.count * room - 1)]
        made = made * torch.where(fits, share, 0).to(made.dtype)[:, None]
        balance = self.count * (hot.float().mean(0) * likely.mean(0)).sum()
        return made.view(self.top, n, c).sum(0).view(x.shape), balance


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


IN_F32 = ["maml", "schnet", "crf", "fno", "sac"]

if __name__ == "__main__":  # torch.compile has no second derivatives of a network's loss
    measure(globals(), in_f32=IN_F32, eager=["schnet"])
