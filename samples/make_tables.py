#!/usr/bin/env python3
"""Writes the small tables that samples/regression and samples/logistic train on, as .npy files.

usage: samples/make_tables.py FOLDER

  house_x.npy    f32 (20000, 8)  columns of different scale and offset
  house_y.npy    f32 (20000,)    a smooth function of them plus noise of deviation 0.05
  points_x.npy   f32 (20000, 2)
  points_y.npy   u8  (20000,)    1 with the probability that a logistic model gives: 0.797 is the best accuracy
"""
import array
import math
import os
import random
import sys


def save(path, values, shape, code, descr):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (descr, ", ".join(map(str, shape)))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        f.write(array.array(code, values).tobytes())


def main():
    folder = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    os.makedirs(folder, exist_ok=True)
    rand, n = random.Random(0), 20000
    scale, offset = [1, 5, 0.1, 2, 1, 10, 1, 0.5], [0, 3, 0, -2, 0, 50, 0, 1]
    xs, ys = [], []
    for _ in range(n):
        x = [rand.gauss(0, 1) * s + o for s, o in zip(scale, offset)]
        xs += x
        ys.append(math.sin(x[0]) + 0.2 * x[1] * x[7] - x[3] + 0.05 * rand.gauss(0, 1))
    save(folder + "/house_x.npy", xs, (n, 8), "f", "<f4")
    save(folder + "/house_y.npy", ys, (n,), "f", "<f4")
    xs, ys = [], []
    for _ in range(n):
        x = [rand.gauss(0, 1), rand.gauss(0, 1)]
        xs += x
        ys.append(int(rand.random() < 1 / (1 + math.exp(-(2 * x[0] - x[1] + 0.5)))))
    save(folder + "/points_x.npy", xs, (n, 2), "f", "<f4")
    save(folder + "/points_y.npy", ys, (n,), "B", "|u1")


main()
