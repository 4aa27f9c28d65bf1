#!/usr/bin/env python3
# samples/shakespeare/gpt.net's network, data and recipe in PyTorch: torch.compile, bf16 autocast, fused AdamW, data on
# the GPU, windows of T bytes in an order of their own each epoch. Prints the losses and the times.
#
#   shakespeare_torch.py tinyshakespeare.txt [STEPS]
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, T, BATCH, DROP = 6, 384, 6, 256, 64, 0.2


def rotary(x):  # (B, heads, T, d)
    half = x.shape[-1] // 2
    turn = torch.arange(T, device=x.device)[:, None] * torch.exp(
        torch.arange(half, device=x.device) * (-math.log(10000) / half))
    a, b = x[..., :half], x[..., half:]
    c, s = turn.cos().to(x.dtype), turn.sin().to(x.dtype)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        for m in (self.qkv, self.up):
            nn.init.normal_(m.weight, std=0.02)
        for m in (self.out, self.down):
            nn.init.normal_(m.weight, std=0.02 / math.sqrt(2 * LAYERS))

    def forward(self, x):
        B = x.shape[0]
        q, k, v = (h.view(B, T, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for h in self.qkv(self.norm1(x)).split(WIDTH, -1))
        a = F.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True,
                                           dropout_p=DROP if self.training else 0)
        x = x + F.dropout(self.out(a.transpose(1, 2).reshape(B, T, WIDTH)), DROP, self.training)
        h = self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))
        return x + F.dropout(h, DROP, self.training)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter = nn.Embedding(128, WIDTH)
        nn.init.normal_(self.letter.weight, std=0.02)
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, text):  # (B, T + 1)
        x = F.dropout(self.letter(text[:, :-1]), DROP, self.training)
        for b in self.blocks:
            x = b(x)
        logits = F.linear(self.last(x), self.letter.weight)
        return F.cross_entropy(logits.view(-1, 128).float(), text[:, 1:].reshape(-1))


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    begin = time.time()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision('high')
    text = torch.tensor(list(open(sys.argv[1], 'rb').read()), device='cuda', dtype=torch.long)
    n = (len(text) - 1) // T
    rows = torch.stack([text[i * T:i * T + T + 1] for i in range(n)])
    train, held = rows[:int(n * 0.9)], rows[int(n * 0.9):]
    net = GPT().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    compiled = torch.compile(net)

    def evaluate():
        net.eval()
        with torch.no_grad(), torch.autocast('cuda', torch.bfloat16):
            # (not compiled: the last batch is smaller)
            parts = [(net(held[i:i + BATCH]).item(), len(held[i:i + BATCH])) for i in range(0, len(held), BATCH)]
        net.train()
        return sum(v * m for v, m in parts) / sum(m for _, m in parts)

    order, at, times = torch.randperm(len(train), device='cuda'), 0, []
    for step in range(steps):
        if at + BATCH > len(order):
            order, at = torch.randperm(len(train), device='cuda'), 0
        share = min(1.0, max(0.0, (step - 100) / max(1, steps - 100)))
        lr = 1e-3 * (step + 1) / 100 if step < 100 else 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * share))
        for g in optimizer.param_groups:
            g['lr'] = lr
        with torch.autocast('cuda', torch.bfloat16):
            loss = compiled(train[order[at:at + BATCH]])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        at += BATCH
        if step % 250 == 249 or step == 0:
            torch.cuda.synchronize()
            times.append((step + 1, time.time()))
            print(f'step {step + 1} loss {loss.item():.4f} at {time.time() - begin:.1f} s', flush=True)
    (s0, t0), (s1, t1) = times[1], times[-1]
    print(f'torch {torch.__version__}: {(t1 - t0) / (s1 - s0) * 1e3:.3f} ms a step, held-out loss {evaluate():.4f}, '
          f'{time.time() - begin:.1f} s in all')


main()
