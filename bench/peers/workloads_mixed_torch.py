#!/usr/bin/env python3
"""As workloads_torch.py: ShuffleNetV2, Longformer, Mamba-2, hash grids, BYOL, Rainbow."""
import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from workloads_common import adam, adamw, clipped, device, ints, measure, rand, size, tiny
from workloads_sequences_torch import MLP, Heads
from workloads_torch import classifier, images


def shufflenet():
    width, last = size(176, 8), size(1024, 32)
    net = torchvision.models.ShuffleNetV2([4, 8, 4], [24, width, 2 * width, 4 * width, last])
    return classifier(net, size(256, 2), size(224, 64), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=4e-5, fused=not tiny))


# -- texts -------------------------------------------------------------------------------------------------------------------------
class Near(Heads):
    def forward(self, x, mask):
        q, k, v = (a.unflatten(-1, (-1, self.d)).transpose(1, 2) for a in self.qkv(x).split(self.sizes, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask) if tiny else flex_attention(q, k, v, block_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class LongLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn, self.ff = Near(width, heads, bias=True), MLP(width, 4 * width, F.gelu)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        x = self.norm1(x + self.attn(x, mask))
        return self.norm2(x + self.ff(x))


class Longformer(nn.Module):
    def __init__(self, layers, width, heads, window, vocab, T):
        super().__init__()
        self.words, self.places, self.first = nn.Embedding(vocab, width), nn.Embedding(T, width), nn.LayerNorm(width)
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)
        self.layer = nn.ModuleList([LongLayer(width, heads) for _ in range(layers)])
        self.dense, self.last, self.bias = nn.Linear(width, width), nn.LayerNorm(width), nn.Parameter(torch.zeros(vocab))
        at = torch.arange(T, device=device)
        if tiny:
            self.mask = (at[:, None] - at).abs() <= window // 2
        else:
            self.mask = create_block_mask(lambda b, h, q, k: (q - k).abs() <= window // 2, None, None, T, T, device=device)

    def forward(self, tokens, hidden):
        x = self.first(self.words(torch.where(hidden, len(self.bias) - 1, tokens)) + self.places.weight)
        for layer in self.layer:
            x = layer(x, self.mask)
        logits = F.linear(self.last(F.gelu(self.dense(x))), self.words.weight, self.bias)
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none")
        return (loss * hidden.flatten()).sum() / hidden.sum().clamp(min=1)


def longformer():
    vocab, batch, T = size(50265, 40), size(4, 2), size(4096, 24)
    net = Longformer(size(12, 2), size(768, 16), size(12, 2), size(512, 8), vocab, T).to(device)
    return net, net, (ints(vocab, batch, T), ints(2, batch, T) > 0), clipped(1.0, adamw(1e-4, 0.01))


def sums_between(a):
    """(..., n) -> (..., n, n): the sum of a after element j up to element i, -inf above the diagonal."""
    s, at = a.cumsum(-1), torch.arange(a.shape[-1], device=a.device)
    return torch.where(at[:, None] >= at, s[..., :, None] - s[..., None, :], -torch.inf)


def ssd(x, a, b, c, chunk):
    """As in Dao and Gu's listing: x (B, T, H, P), a (B, T, H), b, c (B, T, N)."""
    x, b, c = (t.unflatten(1, (-1, chunk)) for t in (x, b, c))
    a = a.unflatten(1, (-1, chunk)).permute(0, 3, 1, 2)
    s = a.cumsum(-1)
    near = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, sums_between(a).exp(), x)
    states = torch.einsum("bcln,bhcl,bclhp->bchpn", b, torch.exp(s[..., -1:] - s), x)
    passed = sums_between(F.pad(s[..., -1], (1, 0))).exp()
    before = torch.einsum("bhzc,bchpn->bzhpn", passed[:, :, :-1, 1:], states)
    far = torch.einsum("bcln,bchpn,bhcl->bclhp", c, before, s.exp())
    return (near + far).flatten(1, 2)


class SSDBlock(nn.Module):
    def __init__(self, width, heads, state, chunk):
        super().__init__()
        inner = 2 * width
        self.heads, self.chunk, self.sizes = heads, chunk, (inner, state)
        self.into = nn.Linear(width, 2 * inner + 2 * state + heads, bias=False)
        self.conv = nn.Conv1d(inner + 2 * state, inner + 2 * state, 4, groups=inner + 2 * state)
        self.rate_bias, self.a_log = nn.Parameter(torch.rand(heads) * 4.6 - 6.9), nn.Parameter(torch.log(1 + 15 * torch.rand(heads)))
        self.skip, self.norm, self.out = nn.Parameter(torch.ones(heads)), nn.RMSNorm(inner, 1e-5), nn.Linear(inner, width, bias=False)

    def forward(self, x):
        inner, state = self.sizes
        z, u, rate = self.into(x).split([inner, inner + 2 * state, self.heads], -1)
        u = F.silu(self.conv(F.pad(u.transpose(1, 2), (3, 0))).transpose(1, 2))
        u, b, c = u.split([inner, state, state], -1)
        rate = F.softplus(rate.float() + self.rate_bias)
        u = u.unflatten(-1, (self.heads, -1))
        y = ssd(u * rate[..., None], rate * -torch.exp(self.a_log), b, c, self.chunk) + u * self.skip[:, None]
        return self.out(self.norm(y.flatten(2) * F.silu(z)))


class Mamba2(nn.Module):
    def __init__(self, layers, width, heads, state, chunk, vocab):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.norm = nn.ModuleList([nn.RMSNorm(width, 1e-5) for _ in range(layers)])
        self.layer = nn.ModuleList([SSDBlock(width, heads, state, chunk) for _ in range(layers)])
        self.last = nn.RMSNorm(width, 1e-5)

    def forward(self, tokens):
        x = self.words(tokens[:, :-1])
        for norm, layer in zip(self.norm, self.layer):
            x = x + layer(norm(x))
        return F.cross_entropy(F.linear(self.last(x), self.words.weight).float().flatten(0, 1), tokens[:, 1:].flatten())


def mamba2():
    vocab = size(32000, 40)
    net = Mamba2(size(12, 2), size(1024, 16), size(32, 4), size(128, 6), size(256, 4), vocab).to(device)
    return net, net, (ints(vocab, size(4, 2), size(2048, 16) + 1),), clipped(1.0, adamw(6e-4, 0.1, betas=(0.9, 0.95)))


# -- fields ------------------------------------------------------------------------------------------------------------------------
class Grid(nn.Module):
    def __init__(self, n, rows, features):
        super().__init__()
        self.n, self.rows = n, rows  # a power of two
        self.table = nn.Parameter(torch.rand(min(rows, (n + 1) ** 3), features) * 2e-4 - 1e-4)
        self.register_buffer("corner", torch.tensor([[c // 4, c // 2 % 2, c % 2] for c in range(8)]), persistent=False)

    def forward(self, x):
        at = x * self.n
        low = at.floor()
        share = (at - low)[:, None]
        i, j, k = torch.where(self.corner == 1, share, 1 - share).unbind(-1)
        weight = (i * j * k)[..., None]
        i, j, k = (low.long()[:, None] + self.corner).unbind(-1)
        if (self.n + 1) ** 3 <= self.rows:
            row = (i * (self.n + 1) + j) * (self.n + 1) + k
        else:
            row = (i ^ (j * 2654435761) ^ (k * 805459861)) & (self.rows - 1)
        return (weight * self.table[row]).sum(1)


class InstantNGP(nn.Module):
    def __init__(self, levels, coarsest, finest, rows, features, width):
        super().__init__()
        growth = math.exp(math.log(finest / coarsest) / (levels - 1))
        self.level = nn.ModuleList([Grid(math.floor(coarsest * growth ** i + 1e-6), rows, features) for i in range(levels)])
        self.fc1, self.fc2, self.fc3 = (nn.Linear(a, b, bias=False) for a, b in [(levels * features, width), (width, width), (width, 1)])

    def forward(self, at, distance):
        x = at - at.floor()
        h = torch.cat([level(x) for level in self.level], -1)
        y = self.fc3(F.relu(self.fc2(F.relu(self.fc1(h)))))[:, 0]
        return ((y - distance).abs() / (distance.abs() + 0.01)).mean()


def instantngp():
    batch = size(2 ** 18, 20)
    net = InstantNGP(size(16, 4), size(16, 2), size(2048, 20), size(2 ** 19, 128), 2, size(64, 8)).to(device)
    return net, net, (rand(batch, 3), rand(batch)), adam(1e-3, betas=(0.9, 0.99), eps=1e-15)


# -- networks with a slow copy -------------------------------------------------------------------------------------------------------
def projection(features, hidden, out):
    return nn.Sequential(nn.Linear(features, hidden), nn.BatchNorm1d(hidden, track_running_stats=False), nn.ReLU(), nn.Linear(hidden, out))


def byol():
    side, hidden, code, batch = size(64, 16), size(4096, 24), size(256, 12), size(256, 3)

    def views_of():
        net = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [2, 2, 2, 2], norm_layer=partial(nn.BatchNorm2d, track_running_stats=False))
        net.conv1, net.maxpool, net.fc = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity(), projection(512, hidden, code)
        return net.to(device, memory_format=torch.channels_last)
    net, slow, predict = views_of(), views_of().requires_grad_(False), projection(code, hidden, code).to(device)
    slow.load_state_dict(net.state_dict())

    def loss(one, other):
        guess = predict(net(torch.cat([one, other])))
        with torch.no_grad():
            goal = slow(torch.cat([other, one]))
        return 4 - 4 * F.cosine_similarity(guess.float(), goal.float(), dim=-1).mean()
    data, fast = (images(batch, side), images(batch, side)), list(net.parameters())

    def steps(compiled):
        f, optimizer = compiled(loss), adam(3e-4)(fast + list(predict.parameters()))

        def step():
            optimizer.zero_grad(set_to_none=True)
            f(*data).backward()
            optimizer.step()
            torch._foreach_lerp_(list(slow.parameters()), fast, 0.004)
        return step
    return (net, slow, predict, loss), steps, data, None


class Dueling(nn.Module):
    def __init__(self, actions, atoms, width):
        super().__init__()
        self.conv = nn.ModuleList([nn.Conv2d(*row) for row in [(4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)]])
        self.value = nn.ModuleDict({"hidden": nn.Linear(3136, width), "out": nn.Linear(width, atoms)})
        self.gain = nn.ModuleDict({"hidden": nn.Linear(3136, width), "out": nn.Linear(width, actions * atoms)})
        self.sizes = actions, atoms

    def forward(self, frames):
        x = frames.float() / 255
        for conv in self.conv:
            x = F.relu(conv(x))
        x = x.permute(0, 2, 3, 1).flatten(1)
        value, gain = (part["out"](F.relu(part["hidden"](x))) for part in (self.value, self.gain))
        gain = gain.unflatten(-1, self.sizes)
        return (value[:, None] + gain - gain.mean(1, keepdim=True)).float()


def rainbow():
    actions, atoms, width, batch, low, high = size(18, 4), size(51, 7), size(512, 16), size(512, 5), -10, 10
    net, old = (Dueling(actions, atoms, width).to(device, memory_format=torch.channels_last) for _ in range(2))
    old.requires_grad_(False).load_state_dict(net.state_dict())
    at = torch.arange(atoms, device=device)
    gap = (high - low) / (atoms - 1)
    returns, row = low + gap * at, torch.arange(batch, device=device)

    def loss(seen, later, action, reward, going, weight):
        with torch.no_grad():
            best = (net(later).softmax(-1) * returns).sum(-1).argmax(-1)
            likely = old(later).softmax(-1)[row, best]
            place = ((reward[:, None] + 0.99 ** 3 * going[:, None] * returns).clamp(low, high) - low) / gap
            goal = ((1 - (place[:, None] - at[:, None]).abs()).clamp(min=0) * likely[:, None]).sum(-1)
        each = -(goal * net(seen)[row, action].log_softmax(-1)).sum(-1)
        return (weight * each).mean(), each.detach()

    def frames():
        return ints(256, batch, 4, 84, 84).to(torch.uint8).to(memory_format=torch.channels_last)
    data = frames(), frames(), ints(actions, batch), rand(batch), ints(2, batch).float(), rand(batch).abs()

    def steps(compiled):
        f, optimizer, done = compiled(loss), adam(6.25e-5, eps=1.5e-4)(net.parameters()), [0]

        def step():
            optimizer.zero_grad(set_to_none=True)
            f(*data)[0].backward()
            optimizer.step()
            done[0] += 1
            if done[0] % 2000 == 0:
                torch._foreach_copy_(list(old.parameters()), list(net.parameters()))
        return step
    return (net, old, loss), steps, data, None


if __name__ == "__main__":
    measure(globals(), in_f32=["instantngp"])
