#!/usr/bin/env python3
"""Causal attention in PyTorch by each of its backends, forward and with gradients.

usage: attention_torch.py BATCH HEADS T D [DROP]
DROP: the share of dropout.
Prints one JSON object a measurement: name, mode (the backend, and whether its gradients have to be deterministic), seconds, tflops (of the products that a
causal mask leaves: half of all; forward two, backward five of them).
Seconds: calls captured in one CUDA graph, median of its replays by CUDA events, over the calls.
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_times import graphed, report

batch, heads, t, d = map(int, sys.argv[1:5])
drop = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
torch.manual_seed(0)
q, k, v = (torch.randn(batch, heads, t, d, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
dy = torch.randn_like(q)
product = 2 * batch * heads * t * t * d / 2


def attend():
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=drop)


for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
    with sdpa_kernel(backend):
        forward = []

        def measure_forward():
            forward.append(graphed(attend))
            return forward[0]

        def measure_both():
            return graphed(lambda: torch.autograd.grad(attend(), (q, k, v), dy))

        report("forward", backend.name, measure_forward, lambda s: {"tflops": 2 * product / s / 1e12})
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            report("backward", backend.name + "_DETERMINISTIC" * deterministic, lambda: measure_both() - forward[0],
                   lambda s: {"tflops": 5 * product / s / 1e12})
        torch.use_deterministic_algorithms(False)
