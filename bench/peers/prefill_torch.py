#!/usr/bin/env python3
"""LLaMA-style decoders (samples/llama/llama.net with the sizes of SmolLM2-360M or Llama-3-8B) in PyTorch, bf16: read a prompt
that fills the context but for 64 positions, then write 64 tokens. Keys and values in a static cache; the prompt in pieces
under torch.compile, by SDPA's causal kernel over the part of the cache that is filled; then a token a call under
torch.compile (reduce-overhead, CUDA graphs), greedy. JSON lines: seconds of both parts.

prefill_torch.py [--mode 360m|8b] [PIECE]    PIECE: tokens a call (default: the whole prompt)
"""
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch_times import arguments, report

MODES, PIECES = arguments()
MODE, NEW = (MODES or ["360m"])[0], 64
LAYERS, WIDTH, HEADS, KV, HIDDEN, VOCAB, TIED, HEAD, CONTEXT = {
    "360m": (32, 960, 15, 5, 2560, 49152, True, 64, 32768),
    "8b": (32, 4096, 32, 8, 14336, 128256, False, 128, 8192),
}[MODE]
PROMPT = CONTEXT - NEW


def rotary(x, at):
    speed = 100000.0 ** (-torch.arange(0, HEAD, 2, device=x.device) / HEAD)
    a = at[:, None] * speed
    cos, sin = torch.cos(a), torch.sin(a)
    p, q = x.float().chunk(2, -1)
    return torch.cat([p * cos - q * sin, q * cos + p * sin], -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)
        linear = lambda n, m: nn.Linear(n, m, bias=False)
        self.q, self.k, self.v = linear(WIDTH, HEADS * HEAD), linear(WIDTH, KV * HEAD), linear(WIDTH, KV * HEAD)
        self.o, self.gate = linear(HEADS * HEAD, WIDTH), linear(WIDTH, HIDDEN)
        self.up, self.down = linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, KV, CONTEXT, HEAD))

    def forward(self, x, at, mask, filled):
        h = self.first(x)
        q, k, v = (f(h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        self.keys.index_copy_(2, at, rotary(k, at))
        self.values.index_copy_(2, at, v)
        keys, values = self.keys[:, :, :filled], self.values[:, :, :filled]
        whole = mask is None  # the causal kernel takes as many queries as keys
        a = F.scaled_dot_product_attention(rotary(q, at), keys, values, attn_mask=mask, is_causal=whole, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).flatten(2))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.norm = nn.Embedding(VOCAB, WIDTH), nn.RMSNorm(WIDTH, 1e-5)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = self.wte if TIED else nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens, at, mask, filled):  # (1, n), (n,) -> the last one's logits (1, VOCAB)
        x = self.wte(tokens)
        for layer in self.layers:
            x = layer(x, at, mask, filled)
        return self.norm(x[:, -1]) @ self.head.weight.t()


@torch.inference_mode()
def measure(piece):
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Llama().eval()
    choose = lambda t, at, mask, filled: model(t, at, mask, filled).argmax(-1, keepdim=True)
    read = torch.compile(choose, dynamic=piece < PROMPT)
    step = torch.compile(choose, mode="reduce-overhead", fullgraph=True)
    prompt = torch.randint(0, VOCAB, (1, PROMPT), device="cuda")
    place = torch.arange(CONTEXT, device="cuda")

    def run():
        begin = time.perf_counter()
        for first in range(0, PROMPT, piece):
            at = place[first : min(first + piece, PROMPT)]
            mask = None if first == 0 else place[: first + len(at)] <= at[:, None]
            token = read(prompt[:, first : first + len(at)], at, mask, first + len(at))
        torch.cuda.synchronize()
        read_by = time.perf_counter()
        for i in range(PROMPT, CONTEXT):
            at = torch.full((1,), i, device="cuda")
            token = step(token.clone(), at, place <= at[:, None], CONTEXT)
        torch.cuda.synchronize()
        return read_by - begin, time.perf_counter() - read_by

    return min([run() for _ in range(4)][1:])


for piece in PIECES or [str(PROMPT)]:
    report("prefill", f"{MODE}, compile, pieces of {piece}", lambda: measure(int(piece)),
           lambda s: {"prefill_s": round(s[0], 4), "us_a_token": round(s[1] / NEW * 1e6, 1), "total_s": round(sum(s), 4)})
