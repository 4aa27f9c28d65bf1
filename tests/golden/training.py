"""Eight steps of training: optimizers, schedules, clipping, statistics of batch norm, other weights."""
import math

import jax
import jax.numpy as jnp
import numpy as np

from goldens import File, R, is_float, unit


OPTIMIZERS = {  # a parameter: what the file says, one step of it (p, g, s, k) -> p with states in s, from step k
    "plain": ("sgd(lr = 0.1)", lambda p, g, s, k: sgd(p, g, s, 0.1)),
    "decayed": ("sgd(lr = 0.1, weight_decay = 0.2)", lambda p, g, s, k: sgd(p, g + 0.2 * p, s, 0.1)),
    "heavy": ("sgd(lr = 0.1, momentum = 0.8)", lambda p, g, s, k: sgd(p, g, s, 0.1, 0.8)),
    "nesterov": ("sgd(lr = 0.1, momentum = 0.8, nesterov = true, weight_decay = 0.1)", lambda p, g, s, k: sgd(p, g + 0.1 * p, s, 0.1, 0.8, True)),
    "adam_": ("adam(lr = 0.02)", lambda p, g, s, k: adam(p, g, s, k, 0.02)),
    "adam_l2": ("adam(lr = 0.02, beta1 = 0.8, beta2 = 0.9, eps = 1e-3, weight_decay = 0.1)", lambda p, g, s, k: adam(p, g + 0.1 * p, s, k, 0.02, 0.8, 0.9, 1e-3)),
    "adamw_": ("adamw(lr = 0.02, weight_decay = 0.3)", lambda p, g, s, k: adam(p, g, s, k, 0.02) - 0.02 * 0.3 * p),
    "rms": ("rmsprop(lr = 0.02, decay = 0.9)", lambda p, g, s, k: rmsprop(p, g, s, 0.02, 0.9)),
    "rms_heavy": ("rmsprop(lr = 0.02, momentum = 0.5)", lambda p, g, s, k: rmsprop(p, g, s, 0.02, 0.99, 0.5)),
    "ada": ("adagrad(lr = 0.1)", lambda p, g, s, k: adagrad(p, g, s, 0.1)),
    "lion_": ("lion(lr = 0.02, weight_decay = 0.3)", lambda p, g, s, k: lion(p, g, s, 0.02) - 0.02 * 0.3 * p),
    "factored_v": ("adafactor(lr = 0.03)", lambda p, g, s, k: adafactor(p, g, s, k, 0.03)),
    "lamb_": ("lamb(lr = 0.02, weight_decay = 0.1)", lambda p, g, s, k: lamb(p, g, s, k, 0.02, 0.1)),
    "ahead": ("sgd(lr = 0.1)", lambda p, g, s, k: sgd(p, g, s, 0.1)),
    "by_cycle": ("sgd(lr = one_cycle(0.3, steps = 7, up = 0.4))", lambda p, g, s, k: sgd(p, g, s, one_cycle(0.3, k, 7, 0.4))),
    "by_restarts": ("sgd(lr = cosine_restarts(0.3, first = 3, final = 0.01))", lambda p, g, s, k: sgd(p, g, s, restarts(0.3, k, 3, 1))),
    "by_longer": ("sgd(lr = cosine_restarts(0.3, first = 1, longer = 2, final = 0.01))", lambda p, g, s, k: sgd(p, g, s, restarts(0.3, k, 1, 2))),
    "by_wsd": ("sgd(lr = wsd(0.3, steps = 7, warmup = 2, down = 0.5, final = 0.1))",
               lambda p, g, s, k: sgd(p, g, s, min(0.3 * (k + 1) / 2, 0.1 + 0.2 * min(1, max(0, (7 - k) / 3.5))))),
    "by_cosine": ("sgd(lr = cosine(0.3, steps = 7, warmup = 2, final = 0.01))",
                  lambda p, g, s, k: sgd(p, g, s, 0.3 * (k + 1) / 2 if k < 2 else 0.01 + 0.29 * 0.5 * (1 + math.cos(math.pi * min((k - 2) / 5, 1))))),
    "by_line": ("sgd(lr = linear_decay(0.3, steps = 6, warmup = 1, final = 0.1))",
                lambda p, g, s, k: sgd(p, g, s, 0.3 * (k + 1) if k < 1 else 0.3 - 0.2 * min((k - 1) / 5, 1))),
    "by_stairs": ("sgd(lr = step_decay(0.3, every = 3, factor = 0.5))", lambda p, g, s, k: sgd(p, g, s, 0.3 * 0.5 ** (k // 3))),
    "by_warmth": ("sgd(lr = constant_lr(0.3, warmup = 4))", lambda p, g, s, k: sgd(p, g, s, 0.3 * min(1, (k + 1) / 4))),
    "by_rise": ("sgd(lr = linear_warmup(0.3, warmup = 5))", lambda p, g, s, k: sgd(p, g, s, 0.3 * min(1, (k + 1) / 5))),
}


def sgd(p, g, s, lr, momentum=0.0, nesterov=False):
    if momentum:
        s["velocity"] = momentum * s.get("velocity", 0 * g) + g
        g = g + momentum * s["velocity"] if nesterov else s["velocity"]
    return p - lr * g


def adam(p, g, s, k, lr, b1=0.9, b2=0.999, eps=1e-8):
    s["m"] = b1 * s.get("m", 0 * g) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0 * g) + (1 - b2) * g * g
    return p - lr * (s["m"] / (1 - b1 ** (k + 1))) / (jnp.sqrt(s["v"] / (1 - b2 ** (k + 1))) + eps)


def rmsprop(p, g, s, lr, decay, momentum=0.0):
    s["v"] = decay * s.get("v", 0 * g) + (1 - decay) * g * g
    d = g / (jnp.sqrt(s["v"]) + 1e-8)
    if momentum:
        d = s["velocity"] = momentum * s.get("velocity", 0 * g) + d
    return p - lr * d


def adagrad(p, g, s, lr):
    s["sum"] = s.get("sum", 0 * g) + g * g
    return p - lr * g / (jnp.sqrt(s["sum"]) + 1e-10)


def lion(p, g, s, lr):
    m = s.get("m", 0 * g)
    s["m"] = 0.99 * m + 0.01 * g
    return p - lr * jnp.sign(0.9 * m + 0.1 * g)


def lamb(p, g, s, k, lr, wd):
    s["m"] = 0.9 * s.get("m", 0 * g) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0 * g) + 0.001 * g * g
    d = s["m"] / (1 - 0.9 ** (k + 1)) / (jnp.sqrt(s["v"] / (1 - 0.999 ** (k + 1))) + 1e-6) + wd * p
    return p - lr * jnp.sqrt(jnp.sum(p * p) / jnp.sum(d * d)) * d


def one_cycle(lr, k, steps, up):
    """As torch.optim.lr_scheduler.OneCycleLR anneals."""
    def between(a, b, t):
        return b + (a - b) / 2 * (1 + math.cos(math.pi * t))
    top = up * steps - 1
    return between(lr / 25, lr, k / top) if k <= top else between(lr, lr / 25 / 1e4, min(1, (k - top) / (steps - 1 - top)))


def restarts(lr, k, first, longer):
    begin, length = 0, first
    while k >= begin + length:
        begin, length = begin + length, length * longer
    return 0.01 + (lr - 0.01) * (1 + math.cos(math.pi * (k - begin) / length)) / 2


def adafactor(p, g, s, k, lr):
    beta, squares = 1 - (k + 1.0) ** -0.8, g * g + 1e-30
    if p.ndim < 2:
        s["v"] = beta * s.get("v", 0 * g) + (1 - beta) * squares
        d = g / jnp.sqrt(s["v"])
    else:
        s["rows"] = beta * s.get("rows", 0 * g[:, 0]) + (1 - beta) * squares.mean(1)
        s["cols"] = beta * s.get("cols", 0 * g[0]) + (1 - beta) * squares.mean(0)
        d = g / jnp.sqrt(jnp.outer(s["rows"], s["cols"]) / s["rows"].mean())
    return p - lr * d / jnp.maximum(1, jnp.sqrt(jnp.mean(d * d)))


def muon(p, g, s, lr, wd=0.0):
    s["velocity"] = 0.95 * s.get("velocity", 0 * g) + g
    x = g + 0.95 * s["velocity"]
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (jnp.sqrt(jnp.sum(x * x)) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (2.0315 * a @ a - 4.775 * a) @ x
    return p - lr * (max(1, p.shape[0] / p.shape[1]) ** 0.5 * (x.T if tall else x) + wd * p)


MATRICES = {  # name: shape, the rest as above
    "tall": ((4, 3), "muon(lr = 0.02)", lambda p, g, s, k: muon(p, g, s, 0.02)),
    "wide": ((2, 3), "muon(lr = 0.02, weight_decay = 0.1)", lambda p, g, s, k: muon(p, g, s, 0.02, 0.1)),
    "factored": ((4, 3), "adafactor(lr = 0.03)", lambda p, g, s, k: adafactor(p, g, s, k, 0.03)),
}


def train_eight(x, t, **params):
    """All cells after eight steps, and the loss of the last one."""
    names = list(OPTIMIZERS)

    def loss_of(params):
        h = (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5) * params["bn.weight"] + params["bn.bias"]
        of = [h @ params[n] for n in names] + [jnp.tanh(h @ params[n].T).sum(-1) for n in MATRICES]
        return sum(jnp.mean((y - t) ** 2) for y in of) / len(of)

    steps = {**{n: OPTIMIZERS[n][1] for n in names}, **{n: MATRICES[n][2] for n in MATRICES}}
    states, mean, var = {n: {} for n in steps}, 0 * x[0], 0 * x[0] + 1
    for k in range(8):
        loss, grads = jax.value_and_grad(loss_of)(params)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads.values()))
        grads = {n: jnp.clip(g * jnp.minimum(1, 0.5 / (norm + 1e-6)), -0.125, 0.125) for n, g in grads.items()}
        new = {n: steps[n](params[n], grads[n], states[n], k) for n in steps}
        slow = states["ahead"].setdefault("slow", params["ahead"])
        if k % 3 == 2:
            new["ahead"] = states["ahead"]["slow"] = slow + 0.4 * (new["ahead"] - slow)
        for n in ("bn.weight", "bn.bias"):
            new[n] = sgd(params[n], grads[n], {}, 0.05)
        params = new
        mean, var = mean + 0.1 * (x.mean(0) - mean), var + 0.1 * (x.var(0) * len(x) / (len(x) - 1) - var)
    cells = {**params, "bn.running_mean": mean, "bn.running_var": var}
    return {**cells, **{f"{n}.{k}": v for n, s in states.items() for k, v in s.items()}, "loss": loss}


def training():
    f = File("training", "# Made by tests/golden/make.py: eight steps, one parameter for each optimizer.\nuse nn\nuse optim\n")
    names = list(OPTIMIZERS)
    lines = [f"param {n}: f32[3] = 0" for n in names] + [f"param {n}: f32{list(MATRICES[n][0])} = 0" for n in MATRICES]
    lines += ["h = batch_norm(x) as bn", "total_loss = 0"]
    lines += [f"total_loss = total_loss + mse(sum(h * {n}, -1), t)" for n in names]
    lines += [f"total_loss = total_loss + mse(sum(tanh(matmul(h, transpose({n}))), -1), t)" for n in MATRICES]
    body = "".join(f"    {l}\n" for l in lines)
    rules = {**{n: OPTIMIZERS[n][0] for n in names}, **{n: MATRICES[n][1] for n in MATRICES}}
    updates = "".join(f"    update {rule} for params(\"{n}\")\n" for n, rule in rules.items())
    f.text.append(f"model m(x: f32[5, 3], t: f32[5]) {{\n{body}    return loss = total_loss / {len(rules)}\n}}\n")
    f.text.append("fn clipped(grads) { return clip_value(clip_global_norm(grads, 0.5), 0.125) }\n")
    f.text.append(f"train m {{\n    minimize loss\n    clip clipped\n{updates}    update lookahead(every = 3, share = 0.4) for params(\"ahead\")\n    update sgd(lr = 0.05) for rest\n}}\n")
    values = {"x": R([5, 3]).draw(f.rng), "t": R([5]).draw(f.rng), **{n: R([3]).draw(f.rng) for n in names + ["bn.weight", "bn.bias"]}, **{n: R(MATRICES[n][0]).draw(f.rng) for n in MATRICES}}
    for k, v in values.items():
        f.tensors[f"train/{'in' if k in 'xt' else 'cell'}/{k}"] = v.astype(np.float32)
    f.tensors["train/cell/bn.running_var"] = np.ones(3, np.float32)  # as it begins, for the evaluator
    f.tensors["train/cell/ahead.slow"] = f.tensors["train/cell/ahead"]
    after = train_eight(**{k: jnp.asarray(v) for k, v in values.items()})
    for k in after:  # cells by name, and the loss
        f.put(f"train/out/{k}", after[k])
        f.tensors[f"train/unit/{k}"] = unit(lambda **v: train_eight(**{n: jnp.asarray(a) for n, a in v.items()})[k], values, np.asarray(after[k]), f.rng)
    f.write()


# -- other weights: a target network, an average to evaluate with, a low-rank change -----------------------
WEIGHTS = """# Made by tests/golden/make.py: eight steps of Q-learning, whose goal comes from a target network; an adapter beside it.
use nn
use optim

fn q(s) { return linear(tanh(linear(s, 4) as body), 3) as top }

model m(x: f32[5, 3], next: f32[5, 3], action: i32[5] in 0..3, reward: f32[5]) {
    now = q(x) as q
    goal = reward + 0.9 * max(q(next) reuse q with target, 1)
    adapted = q(next) reuse q with lora(size = 2, scale = 0.5)
    return loss = mse(sum(now * one_hot(action, 3), 1), goal) + 0.1 * mean(square(adapted))
}

train m {
    minimize loss
    update sgd(lr = 0.1)
    update target(every = 3)
    update ema(decay = 0.8)
    minimize loss over params("*.up")
    update sgd(lr = 0.05)
    evaluate with ema
}
"""


def q_loss(x, next, action, reward, read, read_target):
    q = lambda s, c: jnp.tanh(s @ c("q.body.weight").T + c("q.body.bias")) @ c("q.top.weight").T + c("q.top.bias")
    low = lambda n: read(n) + (0.5 * read(n + ".up") @ read(n + ".down") if n.endswith("weight") else 0)
    chosen = jnp.sum(q(x, read) * jax.nn.one_hot(action, 3, dtype=jnp.float64), 1)
    goal = reward + 0.9 * jnp.max(q(next, lambda n: jax.lax.stop_gradient(read_target(n))), 1)
    return jnp.mean((chosen - goal) ** 2) + 0.1 * jnp.mean(q(next, low) ** 2)


def learn_eight(x, next, action, reward, **c):
    c = {k: jnp.asarray(v) for k, v in c.items()}
    names = [k for k in c if not k.endswith((".copy", ".average"))]
    loss_of = lambda p: q_loss(x, next, action, reward, p.get, lambda n: c[n + ".copy"])
    for k in range(8):
        p = {n: c[n] for n in names}
        loss, g = jax.value_and_grad(loss_of)(p)
        p = {n: p[n] - 0.1 * g[n] for n in names}
        moved = {n + ".copy": p[n] for n in names if n + ".copy" in c} if (k + 1) % 3 == 0 else {}
        means = {n + ".average": 0.8 * c[n + ".average"] + 0.2 * p[n] for n in names}
        g = jax.grad(loss_of)(p)  # the model runs again with the new parameters, and the old target
        p = {n: p[n] - 0.05 * g[n] if n.endswith(".up") else p[n] for n in names}
        c = {**c, **p, **moved, **means}
    return {**c, "loss": loss}


def weights():
    f = File("weights", WEIGHTS)
    sizes = {"q.body.weight": (4, 3), "q.body.bias": (4,), "q.top.weight": (3, 4), "q.top.bias": (3,),
             "q.body.weight.down": (2, 3), "q.body.weight.up": (4, 2), "q.top.weight.down": (2, 4), "q.top.weight.up": (3, 2)}
    values = {"x": R([5, 3]), "next": R([5, 3]), "action": R([5], 0, 3, dtype="i32"), "reward": R([5])}
    values = {k: v.draw(f.rng) for k, v in {**values, **{n: R(s, -1, 1) for n, s in sizes.items()}}.items()}
    for n in sizes:
        values[n + ".average"] = R(sizes[n], -1, 1).draw(f.rng)
        values[n + ".copy"] = R(sizes[n], -1, 1).draw(f.rng)
    evaluated = lambda x, next, action, reward, **c: {"loss": q_loss(x, next, action, reward, lambda n: c[n + ".average"], lambda n: c[n + ".copy"])}
    for entry, run in (("train", learn_eight), ("eval", evaluated)):
        for k, v in values.items():
            f.tensors[f"{entry}/{'cell' if k in sizes or k.count('.') > 1 else 'in'}/{k}"] = v.astype(np.float32) if is_float(v) else v
        after = run(**values)
        for k in after:
            f.put(f"{entry}/out/{k}", after[k])
            f.tensors[f"{entry}/unit/{k}"] = unit(lambda **v: run(**v)[k], values, np.asarray(after[k]), f.rng)
    f.write()
