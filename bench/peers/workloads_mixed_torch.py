#!/usr/bin/env python3
"""As workloads_torch.py: ShuffleNetV2, Longformer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from workloads_common import adamw, clipped, device, ints, measure, size, tiny
from workloads_sequences_torch import MLP, Heads
from workloads_torch import classifier


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


if __name__ == "__main__":
    measure(globals())
