#!/usr/bin/env python3
"""The MLP of samples/mnist/mlp.net in JAX: 784-128-10, batch 128, AdamW, f32, data in device memory.

usage: mnist_jax.py --data DIR [--device cuda] [--mode scan|step] [--tf32] [--epochs 5]
scan: one jitted lax.scan an epoch; step: one jitted call a step. Prints one JSON object an epoch (its
seconds; the first one's include compiling) and one at the end. Needs jax only (AdamW is written out).
"""
import json
import os
import time

import numpy as np

import mnist


def main():
    p = mnist.arguments(__doc__)
    p.add_argument("--mode", default="scan", choices=("scan", "step"))
    a = p.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cuda" if a.device == "cuda" else "cpu")
    if a.threads:
        os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:a.threads]))
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if a.tf32 else "highest")
    x, y, xt, yt = mnist.load(a.data)
    steps = len(x) // a.batch
    x, xt = jnp.asarray(x.reshape(len(x), -1)), jnp.asarray(xt.reshape(len(xt), -1))
    y, yt = jnp.asarray(y, jnp.int32), jnp.asarray(yt, jnp.int32)
    lrs = jnp.asarray(mnist.learning_rates(steps * a.epochs, a.peak))
    rng = np.random.default_rng(a.seed)

    def linear(n, width):
        s = 1 / np.sqrt(n)
        return (jnp.asarray(rng.uniform(-s, s, (n, width)), jnp.float32),
                jnp.asarray(rng.uniform(-s, s, width), jnp.float32))

    sizes = [784, *a.hidden, 10]
    params = [linear(n, width) for n, width in zip(sizes, sizes[1:])]
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (params, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros((), jnp.int32))

    activation = {"relu": jax.nn.relu, "tanh": jnp.tanh,
                  "gelu": lambda x: jax.nn.gelu(x, approximate=False)}[a.activation]

    def logits(params, x):
        x = x.astype(jnp.float32) / 255
        for w, b in params[:-1]:
            x = activation(x @ w + b)
        w, b = params[-1]
        return x @ w + b

    def loss_of(params, x, y):
        z = logits(params, x)
        if a.loss == "mse":
            return jnp.mean((z - jax.nn.one_hot(y, 10)) ** 2)
        return jnp.mean(jax.nn.logsumexp(z, axis=1) - jnp.take_along_axis(z, y[:, None], 1)[:, 0])

    def step(state, rows, x, y):
        params, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(params, x[rows], y[rows])
        lr = lrs[t]
        t = t + 1
        if a.optimizer == "sgd":
            m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
            return (jax.tree.map(lambda p, m: p - lr * m, params, m), m, v, t), loss
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
        params = jax.tree.map(
            lambda p, m, v: p - lr * (m / c1 / (jnp.sqrt(v / c2) + 1e-8) + 0.01 * p), params, m, v)
        return (params, m, v, t), loss

    @jax.jit
    def epoch_scan(state, order, x, y):
        state, losses = jax.lax.scan(lambda s, rows: step(s, rows, x, y), state, order)
        return state, losses.mean()

    one = jax.jit(step, donate_argnums=0)
    share_right = jax.jit(lambda params: jnp.mean(jnp.argmax(logits(params, xt), 1) == yt))
    seconds = []
    for epoch in range(a.epochs):
        start = time.perf_counter()
        order = rng.permutation(len(x))[:steps * a.batch].reshape(steps, a.batch).astype(np.int32)
        if a.mode == "scan":
            state, mean = epoch_scan(state, jnp.asarray(order), x, y)
            mean = float(mean)  # waits
        else:
            total = []
            for rows in order:
                state, loss = one(state, rows, x, y)
                total.append(loss)
            mean = float(jnp.mean(jnp.stack(total)))
        seconds.append(time.perf_counter() - start)
        line = {"peer": "jax", "epoch": epoch + 1, "loss": mean, "seconds": seconds[-1]}
        if a.evaluate:
            line["test_accuracy"] = float(share_right(state[0]))
        line["since_start"] = time.time() - a.started
        print(json.dumps(line), flush=True)
    accuracy = float(share_right(state[0]))
    rest = sorted(seconds[1:] or seconds)
    print(json.dumps({"peer": "jax", "version": jax.__version__, "device": a.device, "mode": a.mode,
                      "tf32": a.tf32, "batch": a.batch, "hidden": a.hidden, "steps": steps, "epochs": a.epochs, "test_accuracy": accuracy,
                      "seconds_per_epoch": rest[len(rest) // 2], "first_epoch": seconds[0],
                      "hardware": str(jax.devices()[0].device_kind), "cores": len(os.sched_getaffinity(0))}))


main()
