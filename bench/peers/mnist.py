"""MNIST's IDX files for the peers, and the learning rate that samples/mnist/mlp.net asks for."""
import gzip
import math
import os

import numpy as np


def idx(path):
    for name in (path, path + ".gz"):
        if os.path.exists(name):
            raw = (gzip.open if name.endswith(".gz") else open)(name, "rb").read()
            rank = raw[3]
            dims = np.frombuffer(raw, ">i4", rank, 4)
            return np.frombuffer(raw, np.uint8, -1, 4 + 4 * rank).reshape(dims)
    raise SystemExit(f"{path}: not there; --data names the folder of the four MNIST files")


def load(folder):
    return tuple(idx(os.path.join(folder, name)) for name in (
        "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"))


def learning_rates(total, peak=4e-3, warmup=100):
    """Linear warm-up, then a cosine to zero, one value a step."""
    out = np.empty(total, np.float32)
    for i in range(total):
        out[i] = (peak * (i + 1) / warmup if i < warmup else
                  peak * 0.5 * (1 + math.cos(math.pi * (i - warmup) / max(1, total - warmup))))
    return out


def arguments(description):
    import argparse
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--data", required=True, help="folder of the MNIST files")
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--hidden", type=lambda s: [int(n) for n in s.split(",")], default=[128],
                   help="widths of the hidden layers: 128 or 128,64")
    p.add_argument("--activation", default="relu", choices=("relu", "tanh", "gelu"))
    p.add_argument("--loss", default="cross_entropy", choices=("cross_entropy", "mse"),
                   help="mse: against one-hot labels")
    p.add_argument("--optimizer", default="adamw", choices=("adamw", "sgd"), help="sgd: momentum 0.9")
    p.add_argument("--peak", type=float, default=4e-3, help="learning rate after the warm-up")
    p.add_argument("--evaluate", action="store_true", help="test accuracy after every epoch")
    p.add_argument("--started", type=float, default=0.0,
                   help="Unix time at which the process was started: seconds since then are printed too")
    p.add_argument("--tf32", action="store_true", help="allow TF32 in matrix products")
    p.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all")
    p.add_argument("--seed", type=int, default=0)
    return p
