"""The text of a random model: layers one after the other, a head, a training program."""

FUNCTIONS = """\
fn moved(x) {                                   # running statistics of its own
    state average: f32[dim(x, -1)] = 0
    if training { average <- 0.9 * average + 0.1 * mean(cast(x, f32), 0) }
    return x - average
}
fn scaled(x) {                                  # a gain that the first batch gives
    param gain: f32[dim(x, -1)] = rsqrt(mean(square(cast(x, f32)), 0) + 0.01)
    state trail: f32[dim(x, -1)] = gain
    if training { trail <- 0.9 * trail + 0.1 * gain }
    return x * gain + 0.01 * trail
}
fn carried(x) {                                 # an LSTM that goes on where the batch before ended
    state h: f32[batch, 8] = 0
    state c: f32[batch, 8] = 0
    each, last, cell = lstm(reshape(x, [batch, 2, 4]), 8, h = h, c = c)
    h <- cast(last, f32)
    c <- cast(cell, f32)
    return last
}
fn rounds(x) {                                  # a loop that calls a layer with a state
    h = x
    loop t in 0..3 carry h {
        h = 0.5 * h + 0.5 * tanh(linear(moved(h) as norm, 8) as cell)
    }
    return h
}
fn ring(x) {                                    # the latest three means
    state kept: f32[3, 8] = 0
    state at: i32[] = 0
    kept[at % 3] <- mean(cast(x, f32), 0)
    at <- at + 1
    return x + 0.1 * mean(kept, 0)
}
fn highest(x) {                                 # a running maximum
    state top: f32[8] = -inf
    if training { top <- maximum(top, max(cast(x, f32), 0)) }
    return x / (1 + where(isfinite(top), abs(top), 0))
}
fn typed(x, type) {
    param w: type[8, 8] = uniform(-0.3, 0.3)
    param b: type[8] = 0.1
    return x + cast(tanh(matmul(cast(x, type), w) + b), dtype(x))
}
fn fixed(x) {
    param turn: f32[8, 8] = normal(0.3) frozen
    return matmul(x, turn)
}
fn through(x) { return minimum(maximum(x, -1), 1) } grad(dy) { return dy }
fn tied(x, kind) {
    e = embedding(kind, 5, 8) as table
    return x + e + matmul(softmax(matmul(x, transpose(table.weight))), table.weight)
}
fn both(x) {
    y = tanh(linear(x, 8) as one)
    return y + (linear(y, 8) reuse one)
}
fn noisy(p, g, lr) {                            # an optimizer that draws, of a state of integers
    state times: i32[] = 0
    times <- times + 1
    p <- p - cast(lr * (g + normal(shape(p), 0.02)) / sqrt(cast(times, f32)), dtype(p))
}
fn averaged(p, g, lr) {
    state kept: f32[shape(p)] = p
    kept <- 0.9 * kept + 0.1 * p
    p <- p - lr * (g + 0.1 * (p - kept))
}
fn relative(grads) {                            # clipping by a running norm
    state usual: f32[] = 1
    norm = global_norm(grads)
    usual <- 0.9 * usual + 0.1 * norm
    out = []
    for g in grads { out = out + [g * narrowed(minimum(1, usual / (norm + 1e-6)), g)] }
    return out
}
fn thinned(x) {                                 # dropout in the iterations of a loop
    h = x
    loop t in 0..2 carry h { h = h + 0.5 * dropout(tanh(linear(h, 8) as cell), 0.3) }
    return h
}
fn then_so(first, later) { return [first[0] * later[0], later[0] * first[1] + later[1]] }
fn scan(x) {
    a = sigmoid(linear(x, 8) as gate)
    _, h = associative_scan(then_so, [a, x], axis = 1)
    return h
}
fn seen(x) {                                    # a running sum that evaluations write, too
    state total: f64[] = 0
    total <- total + sum(cast(x, f64))
    return x + 0 * cast(total, dtype(x))
}
fn shrink(p, g, rate) { p <- (1 - rate) * p }
fn trust(x) { return tanh(linear(tanh(linear(x, 8) as a), 1) as b)[:, 0] }
"""

# Layers of h, (batch, 8); N is the number of the layer.
LAYERS = {
    "dense": "h = tanh(linear(h, 8) as dN)",
    "wide": "h = linear(relu(linear(h, 24) as upN), 8) as downN",
    "conv": "h = tanh(flatten(conv1d(expand(h, -1), 2, 3) as convN)[:, ::2])",
    "batch_norm": "h = batch_norm(h) as bnN",
    "layer_norm": "h = layer_norm(h) as lnN",
    "dropout": "h = dropout(h, 0.2)",
    "dropout_setting": "h = dropout(h, drop)",
    "noise": "h = h + normal(shape(h), 0.05)",
    "embedding": "h = linear(concat([h, embedding(kind, 5, 4) as eN], -1), 8) as joinN",
    "tied": "h = tied(h, kind) as tieN",
    "gru": "eachN, h = gru(reshape(h, [batch, 4, 2]), 8) as gruN",
    "attention": "h = h + flatten(multi_head(reshape(h, [batch, 4, 2]), heads = 1, causal = true) as attnN)",
    "conv2d": "h = flatten(avg_pool(relu(conv2d(reshape(h, [batch, 2, 4, 1]), 4, 3) as imN), 2))",
    "thinned": "h = thinned(h) as thinN",
    "scan": "h = scan(h) as scanN",
    "seen": "h = seen(h) as sumN",
    "sorted": "h = h + sort(h)",
    "picked": "h = h + take_along_axis(h, argsort(h)[:, :1])",
    "penalty": "slopeN = grad(sum(tanh(linear(x, 4) as penN)), x); extra = extra + 0.01 * mean(square(slopeN))",
    "carried": "h = carried(h) as lstmN",
    "rounds": "h = rounds(h) as loopN",
    "moved": "h = moved(h) as movN",
    "ring": "h = ring(h) as ringN",
    "highest": "h = highest(h) as topN",
    "scaled": "h = scaled(h) as scN",
    "f64": "h = typed(h, f64) as doubleN",
    "bf16": "h = typed(h, bf16) as brainN",
    "f16": "h = typed(h, f16) as halfN",
    "fixed": "h = fixed(h) as fixN",
    "through": "h = through(2 * h)",
    "both": "h = both(h) as bothN",
    "gradient": "h = h + 0.1 * grad(sum(sin(h)), h)",
    "weight_norm": "h = tanh(linear(h, 8) as wnN with weight_norm)",
    "spectral_norm": "h = tanh(linear(h, 8) as snN with spectral_norm)",
    "lora": "h = tanh(linear(h, 8) as loN with lora(size = 2))",
    "tap": "tap h as tapN",
    "assert": 'assert all(abs(h) < 1e6), "too large"',
    "count": "state seenN: i64[] = 0; seenN <- seenN + batch",
    "scratch": "scratch state sN: f32[batch, 8] = 0; sN <- cast(h, f32); h = h + 0.1 * sN",
}
# Layers with states, or whose result depends on the whole batch.
STATES = {"batch_norm", "carried", "moved", "rounds", "ring", "highest", "scaled", "scratch", "spectral_norm", "count",
          "seen"}
RANDOM = {"dropout", "dropout_setting", "noise", "thinned"}
ROW_STATES = {"carried", "scratch"}  # as large as the batch
FIRST_BATCH = {"scaled"}

OPTIMIZERS = {
    "sgd": "sgd(lr = LR)",
    "momentum": "sgd(lr = LR, momentum = 0.9, nesterov = true)",
    "adam": "adam(lr = LR)",
    "adamw": "adamw(lr = LR, weight_decay = 0.1)",
    "rmsprop": "rmsprop(lr = LR, momentum = 0.5)",
    "adagrad": "adagrad(lr = LR)",
    "lion": "lion(lr = 0.1 * LR)",
    "adafactor": "adafactor(lr = LR)",
    "lamb": "lamb(lr = LR)",
    "noisy": "noisy(lr = LR)",
    "averaged": "averaged(lr = LR)",
    "muon": "muon(lr = LR)",
}
CLIPS = {"norm": "clip_global_norm(0.5)", "value": "clip_value(0.05)", "relative": "relative"}
RATES = {
    "number": "0.01",
    "setting": "rate",
    "step": "step_decay(0.01, every = 3)",
    "epoch": "0.01 * 0.7 ** epoch",
    "updates": "0.02 / (1 + updates)",
    "total": "cosine(0.02, steps = total, warmup = 3)",
    "cycle": "one_cycle(0.02, steps = total)",
    "momentum": "linear_warmup(0.01, warmup = 5)",
}


def text(f):
    """The model of the features f."""
    out = [f"use {name}" for name in ("nn", "optim", "conv", "recurrent", "transformer", "metrics")]
    out += [f"dim batch = {f['batch']}", "setting rate = 0.01", "setting drop = 0.1", "const gain = 1.0", FUNCTIONS]
    out += ["model fit(x: f32[batch, 6], y: f32[batch], kind: i32[batch] in 0..5) {", *indented(body(f)), "}"]
    out += ["train fit {", *indented(program(f)), "}"]
    if f["programs"]:
        out += ["train fit as tune {", *indented(TUNE), "}"]
    return "\n".join(out) + "\n"


TUNE = ['minimize loss over params("out.*")', "update sgd(lr = 0.05, momentum = 0.5)"]


def indented(lines):
    return ["    " + line for line in lines]


def body(f):
    out = [f"x = cast(x, {f['real']})"] if f["real"] != "f32" else []
    out += ["h = gain * (linear(x, 8) as first)", "extra = 0"]
    out += [LAYERS[layer].replace("N", str(i)) for i, layer in enumerate(f["layers"])]
    results = ["loss", "p"]
    if f["head"] == "classes":
        out += ["p = linear(h, 5) as out", "loss = cross_entropy(p, kind) + extra"]
        results += ["accuracy = accuracy(p, kind)"]
        results += ["table = confusion(p, kind)", "f1 = f1(confusion(p, kind))"] if f["tally"] else []
    else:
        out += ["p = (linear(h, 1) as out)[:, 0]", "loss = mse(p, y) + extra"]
        results += ["rmse = rmse(p, y)", "high = overall(abs(p))"] if f["tally"] else []
    if f["critic"]:
        out += ["q = trust(stop_gradient(h)) as critic", "doubt = mse(q, square(y))"]
        results += ["doubt"]
    if f["target"]:
        out += ["now = trust(h) as value", "late = evaluated(trust)(h) reuse value with target",
                "loss = loss + 0.1 * mse(now, stop_gradient(0.5 * late) + y)"]
    results += [f"seen{i}" for i, layer in enumerate(f["layers"]) if layer == "count"]
    return out + ["return " + ", ".join(results)]


def program(f):
    def optimizer(name):
        return OPTIMIZERS[name].replace("LR", RATES[f["rate"]])
    average = "update ema(decay = 0.8) for params()"
    out = [f"accumulate {f['accumulate']}"] if f["accumulate"] > 1 else []
    out += ['recompute "*"'] if f["recompute"] else []
    over = ""
    if f["critic"]:
        out += ['minimize doubt over params("critic.*")', "update " + optimizer("rmsprop")]
        out += [average] if f["ema"] else []
        scopes = ["first", "out", "value"] + [f"*{i}" for i in range(len(f["layers"]))]
        over = " over params([" + ", ".join(f'"{s}.*"' for s in scopes) + "])"
    out += ["for again in 0..2 {"] if f["twice"] else []
    out += ["minimize loss" + over]
    out += ["clip " + CLIPS[f["clip"]]] if f["clip"] else []
    second = f["second"] or ("adam" if f["optimizer"] == "muon" else None)  # (which is for matrices)
    if second:
        out += [f"update {optimizer(f['optimizer'])} for params(rank = 2)", f"update {optimizer(second)} for rest"]
    else:
        out += ["update " + optimizer(f["optimizer"])]
    out += ["}"] if f["twice"] else []
    out += ["update shrink(rate = 1e-3) for params(rank = 2)"] if f["decay"] else []
    out += ["update lookahead(every = 3) for params()"] if f["lookahead"] else []
    out += ['update target(every = 3) for params("value.*")'] if f["target"] else []
    out += [average] if f["ema"] else []
    return out + (["evaluate with ema"] if f["ema"] == "evaluate" else [])
