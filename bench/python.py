"""What a call costs from Python: four arrays in, one out; on a GPU torch's, to a place of torch's. See bench/python.c."""

import sys
import time

import netc

ROUNDS, CALLS = 20, 5000  # the least of the rounds counts
m = netc.compile(sys.argv[1], device=sys.argv[2])
e = m.entry("four")
if sys.argv[2].startswith("cuda"):
    import torch
    a, b, c, d = (torch.ones(4, device=sys.argv[2]) for _ in range(4))
    more = {"out": {"y": torch.zeros(4, device=sys.argv[2])}}
else:
    import numpy
    a, b, c, d = (numpy.ones(4, "f4") for _ in range(4))
    more = {}


def timed(f):
    least = 1.0
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            f(a=a, b=b, c=c, d=d, **more)
        least = min(least, time.perf_counter() - begin)
    return least / CALLS * 1e9


print(f"{timed(e):.1f} {timed(m):.1f}")
