#!/usr/bin/env python3
"""Products of few results in PyTorch: few_results_torch.py --mode f32|tf32 M,N,K...

Prints "FORM,M,N,K MICROSECONDS" a line; nn: x (M, K) times w (K, N), nt: times the transpose of (N, K), tn: the transpose
of (K, M) times (K, N). Calls captured in one CUDA graph, by events (torch_times.py).
"""
import torch
from torch_times import arguments, graphed

modes, sizes = arguments()
torch.backends.cuda.matmul.allow_tf32 = modes == ["tf32"]
for size in sizes:
    m, n, k = map(int, size.split(","))
    x, w = torch.rand(m, k, device="cuda"), torch.rand(k, n, device="cuda")
    across, down = w.t().contiguous(), x.t().contiguous()
    for form, call in (("nn", lambda: x @ w), ("nt", lambda: x @ across.t()), ("tn", lambda: down.t() @ w)):
        print(f"{form},{size} {graphed(call) * 1e6:.3f}", flush=True)
