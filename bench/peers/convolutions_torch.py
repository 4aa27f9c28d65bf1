#!/usr/bin/env python3
"""Convolutions by cuDNN's best algorithm (benchmark mode), bf16, channels last: forward and both gradients.

usage: convolutions_torch.py NAME=VALUE,... ...    a word a convolution, as bench/convolutions.sh writes them
Prints one JSON object a direction: name, mode, seconds, as graphed() of torch_times.py measures them.
"""
import sys

import torch
from torch_times import graphed, report

torch.backends.cudnn.benchmark = True
for word in sys.argv[1:]:
    v = dict(batch=512, depth=0, h=32, c=64, o=64, k=3, stride=1, dilation=1, groups=1)
    v.update((key, int(value)) for key, value in (part.split("=") for part in word.split(",")))
    n = 3 if v["depth"] else 2
    size = ([v["depth"]] if v["depth"] else []) + [v["h"], v["h"]]
    last = torch.channels_last_3d if v["depth"] else torch.channels_last

    def random(*shape):
        return torch.randn(*shape, device="cuda").bfloat16().to(memory_format=last)

    try:
        x, w = random(v["batch"], v["c"], *size), random(v["o"], v["c"] // v["groups"], *[v["k"]] * n)
        options = [[v["stride"]] * n, [v["dilation"] * (v["k"] // 2)] * n, [v["dilation"]] * n, False, [0] * n, v["groups"]]
        y = torch.ops.aten.convolution(x, w, None, *options)
        g = torch.randn_like(y)
    except Exception as e:
        print(f"{word}: {str(e)[:200]}", file=sys.stderr)
        continue

    def backward(x, w, g, options, mask):
        return lambda: torch.ops.aten.convolution_backward(g, x, w, None, *options, mask)

    directions = {"forward": lambda: torch.ops.aten.convolution(x, w, None, *options),
                  "dx": backward(x, w, g, options, [True, False, False]),
                  "dw": backward(x, w, g, options, [False, True, False])}
    for direction, call in directions.items():
        report(word, direction, lambda: graphed(call, 9), lambda s: {})
    del x, w, y, g, directions
    torch.cuda.empty_cache()
