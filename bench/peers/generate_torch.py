#!/usr/bin/env python3
"""GPT-2 124M writing 512 tokens after a prompt of 128 in PyTorch: keys and values in a static cache, a token a call under
torch.compile (reduce-overhead, CUDA graphs), greedy. JSON lines: tokens a second of all texts.

generate_torch.py [--mode BATCH]...
"""
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch_times import arguments, report

LAYERS, WIDTH, HEADS, VOCAB, CONTEXT, PROMPT, NEW = 12, 768, 12, 50257, 1024, 128, 512


class Block(nn.Module):
    def __init__(self, batch):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, HEADS, CONTEXT, WIDTH // HEADS, dtype=torch.bfloat16))

    def forward(self, x, at, mask):
        q, k, v = (h.unflatten(-1, (HEADS, -1)).transpose(1, 2) for h in self.qkv(self.ln_1(x)).chunk(3, -1))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        a = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, batch):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h, self.ln_f = nn.ModuleList(Block(batch) for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, tokens, at):  # (B, n), (n,) -> (B, VOCAB)
        x = self.wte(tokens) + self.wpe(at)
        mask = torch.arange(CONTEXT, device=at.device) <= at[:, None]
        for block in self.h:
            x = block(x, at, mask)
        return self.ln_f(x[:, -1]) @ self.wte.weight.t()


@torch.inference_mode()
def measure(batch):
    model = GPT(batch).cuda().bfloat16().eval()
    step = torch.compile(lambda t, at: model(t, at).argmax(-1, keepdim=True), mode="reduce-overhead", fullgraph=True)
    prompt = torch.randint(0, VOCAB, (batch, PROMPT), device="cuda")

    def write():
        token = model(prompt, torch.arange(PROMPT, device="cuda")).argmax(-1, keepdim=True)
        for at in range(PROMPT, PROMPT + NEW - 1):
            token = step(token.clone(), torch.full((1,), at, device="cuda"))
        torch.cuda.synchronize()

    times = []
    for _ in range(4):
        begin = time.perf_counter()
        write()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


for batch in arguments()[0] or ["1", "32"]:
    report("generate", f"compile, batch {batch}", lambda: measure(int(batch)),
           lambda s: {"tokens_per_s": round(int(batch) * NEW / s), "us_a_step": round(s / NEW * 1e6, 1)})
