#!/usr/bin/env python3
"""bench/lstm.net in PyTorch, whose LSTM is cuDNN's: microseconds of a training step as JSON lines.

lstm_torch.py [--mode f32] [--mode tf32] [--mode bf16]
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch_times import arguments, graphed, report

VOCAB, WIDTH, T, BATCH = 96, 512, 128, 64


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter = nn.Embedding(VOCAB, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, text):
        x = self.lstm(self.letter(text[:, :-1]))[0]
        return F.cross_entropy(self.out(x).float().flatten(0, 1), text[:, 1:].flatten())


def measure(mode):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode != "f32"
    model = Letters().cuda()
    adam = torch.optim.Adam(model.parameters(), 1e-3, fused=True, capturable=True)
    text = torch.randint(0, VOCAB, (BATCH, T + 1), device="cuda")

    def step():
        adam.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=mode == "bf16"):
            loss = model(text)
        loss.backward()
        adam.step()

    return graphed(step)


for mode in arguments()[0] or ["f32", "tf32", "bf16"]:
    report("lstm", mode, lambda: measure(mode), lambda s: {"items_per_s": round(BATCH / s)})
