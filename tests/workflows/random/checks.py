"""The checks of a workflow: ways to the same numbers. Each is given a Flow and raises Failed."""

import json
import os
import random
import shutil
import subprocess

import model
from files import read_npy
from flow import BUILD, NETC, ROOT, Failed

CHECKS = []  # each with .fits: of the features
FEW = dict(steps=4, best=None, patience=0, eval_every=0, report=1, watch=None)
QUIET = dict(evaluate=None, split=None, best=None, patience=0, watch=None)
NO_OPTIONS = dict(set=None, parts=False, library=True, reuse=True)  # for Python and C
NARROW = {"bf16", "f16"}  # layers


def check(fits=lambda f: True):
    def put(function):
        function.fits = fits
        CHECKS.append(function)
        return function
    return put


def has(f, *sets):
    return any(layer in s for layer in f["layers"] for s in sets)


def exact(f):
    """Whether rounding is that of f32 at least."""
    return f["precision"] == "f32" and not has(f, NARROW)


# -- training --------------------------------------------------------------------------------------

@check()
def again(w):
    """Without a cache, on one thread, with other reports and without evaluations it is the same."""
    a = w.train("a")
    b = w.train("b", "--cache-dir", "", "--tensorboard", "board", env={"OMP_NUM_THREADS": "1"}, watch="first.weight")
    w.same(a, b, "trained twice")
    w.close(w.log("a", True), w.log("b", True), 0, "evaluations")
    if not (w.f["patience"] or w.f["best"] or w.f["split"]):
        # (States that only evaluations read, such as an average of what is frozen, are not there.)
        c = w.train("c", "--save-every", 3, **{**QUIET, "report": 7})
        w.same(a, c, "without evaluations", common=True)


@check()
def resumed(w):
    """In pieces: stopped by a signal; by a number of steps, and moved; at the end."""
    a = w.train("a")
    if w.interrupted("b", w.f["cut"]):
        w.same(a, w.train("b", "--resume", w.named("b")), "resumed after a signal")
        if w.f["best"] and os.path.exists(w.path(w.named("a.best"))):
            w.same(w.named("a.best"), w.named("b.best"), "the best after a signal")
    w.same(a, w.train("e", "--resume", a), "resumed at the end")
    by_total = w.f["rate"] in ("total", "cycle") and not w.f["program"]
    if not by_total and not w.f["patience"]:
        c = w.train("c", steps=w.f["cut"])
        shutil.copytree(w.folder, w.path("copy"))
        d = w.train("d", "--resume", os.path.join("copy", c))
        # (The evaluation at the end of the first part counts as one without a better value.)
        w.same(a, d, "resumed from a copy", meta=not w.f["best"])


@check(lambda f: not f["patience"] and not f["best"])
def killed(w):
    """SIGKILL leaves a whole checkpoint, from which training goes on."""
    a = w.train("a")
    if w.interrupted("k", w.f["cut"], "--save-every", 1, kill=True):
        w.same(a, w.train("k", "--resume", w.named("k"), "--cache-dir", ""), "resumed after SIGKILL")
        left = [n for n in os.listdir(w.folder) if ".netc-" in n]
        if left:
            raise Failed(f"left over: {left}")


@check()
def logged(w):
    """The log and TensorBoard's table of training in two parts are those of one."""
    few = dict(report=1, patience=0, best=None)
    w.train("a", "--tensorboard", "ta", **few)
    w.interrupted("b", w.f["cut"], "--log", "b.log", "--tensorboard", "tb", **few)
    w.train("b", "--resume", w.named("b"), "--tensorboard", "tb", **few)
    w.close(w.log("a", False), w.log("b", False), 0, "the log in two parts")

    def rows(folder):
        table = [line.split(",") for line in open(w.path(folder + "/scalars.csv")).read().split()[1:]]
        return [{"step": r[0], r[3]: r[4]} for r in table if r[3].startswith("train/") and "items" not in r[3]]
    w.close(rows("ta"), rows("tb"), 0, "scalars.csv in two parts")


@check(lambda f: not has(f, model.FIRST_BATCH))
def initial(w):
    """From initial values that were saved."""
    a = w.train("a")
    w.run("init", "m.net", *w.compiling(), "--seed", w.f["seed"], "-o", w.named("i"), "--device", "cpu", "-q")
    w.same(a, w.train("b", "--weights", w.named("i")), "from saved initial values")


@check(lambda f: f["programs"] and not f["program"])
def tuned(w):
    """A second program goes on from the weights of the first and trains what it is for, in two parts, too."""
    a = w.train("a", patience=0)
    few = dict(program="tune", best=None, patience=0, set=None)
    b = w.train("b", "--weights", a, **few)
    w.interrupted("c", w.f["cut"], "--weights", a, **few)
    w.same(b, w.train("c", "--resume", w.named("c"), **few), "the second program in two parts")
    x, y = w.tensors(a), w.tensors(b)
    parameters = [n for n in y if n in x and n.split(".")[-1] in ("weight", "bias", "w", "b", "turn", "up", "down")]
    changed = sorted(n for n in parameters if x[n] != y[n])
    if changed != ["out.bias", "out.weight"]:
        raise Failed(f"the second program changed {changed}")


# -- other plans, other devices --------------------------------------------------------------------

@check(lambda f: f["real"] == "f32" and exact(f))
def passes(w):
    """Without optional passes, sharing of memory, a library, recomputation; with little memory."""
    few = {**FEW, "limit": False, "library": True, "reuse": True}
    a = w.train("a", **few)
    r, names = random.Random(str(w.f)), optional_passes()
    for skipped in r.sample(names, 2) + [",".join(names)]:
        w.train("b", "--skip-passes", skipped, **few)
        w.close(w.log("a", False), w.log("b", False), 2e-4, "without the passes " + skipped)
    w.same(a, w.train("c", **{**few, "reuse": False}), "without sharing memory")
    w.train("d", **{**few, "library": False})
    w.close(w.log("a", False), w.log("d", False), 2e-4, "without a library")
    if w.f["recompute"]:
        w.write("plain.net", model.text({**w.f, "recompute": False}))
        w.train("e", net="plain.net", **few)  # (another kernel may add up a softmax in another order)
        w.close(w.log("a", False), w.log("e", False), 1e-6, "without recompute")
    w.train("f", **{**few, "limit": True})
    w.close(w.log("a", False), w.log("f", False), 2e-4, "with little memory")


def optional_passes():
    net = os.path.join(ROOT, "tests/workflows/hidden.net")
    said = subprocess.run([NETC, net, "--skip-passes", "?", "-o", "/dev/null"], capture_output=True, text=True).stderr
    return said.split("passes that can be skipped: ")[1].split("\n")[0].replace(",", " ").split()


@check(lambda f: f["accumulate"] > 1 and not f["program"] and exact(f) and not has(f, model.STATES, model.RANDOM) and
       f["rows"] * (f["split"] or 1) > f["batch"] * f["accumulate"])
def accumulated(w):
    """n micro-batches are one batch of n times the size."""
    few = {**FEW, "keep_last": False}
    w.train("a", **few)
    w.write("whole.net", model.text({**w.f, "accumulate": 1, "batch": w.f["batch"] * w.f["accumulate"]}))
    w.train("b", net="whole.net", **few)
    w.close(w.log("a"), w.log("b"), 2e-4, "in one batch")


@check(exact)
def shim(w):
    """On the host shim (tests/shim)."""
    few = {**FEW, "steps": 3}
    w.train("a", **few)
    w.train("b", env={"LD_LIBRARY_PATH": os.path.join(BUILD, "shim")}, device="cuda:0", **few)
    # (Not evaluations: Adam moves a bias before a batch norm by rounding alone, and running statistics follow.)
    w.close(w.log("a", False), w.log("b", False), 2e-4, "on the host shim")


@check(lambda f: f["seed"] == 1 and not has(f, {"through", "rounds"}))
def checked(w):
    """netc check, on the CPU. (Finite differences see what a gradient leaves out: by its definition, in a loop.)"""
    w.run("check", "m.net", "--device", "cpu", "--precision", w.f["precision"])


# -- what was trained ------------------------------------------------------------------------------

@check(lambda f: not f["split"])
def evaluated(w):
    """Evaluations in training are those of netc eval, of model.bin and in other batches."""
    a = w.train("a", patience=0)
    logged = w.evaluations("a")
    rest = [*w.examples(prefix="e"), "--device", "cpu", "--json", "-q", "--seed", w.f["seed"]]

    def compare(step, what, tolerance, *words):
        text = w.run("eval", *words, *rest)
        have = json.loads([line for line in text.splitlines() if line.startswith("{")][0])
        w.close([logged[step]], [{k: v for k, v in have.items() if k in logged[step]}], tolerance, what)
    with_weights = ("m.net", *w.compiling(), "--weights")
    compare(max(logged), "netc eval", 0, *with_weights, a)
    w.run("m.net", *w.compiling(), "--weights", a, "-o", "m.bin", "--target", "cpu", "-q")
    compare(max(logged), "netc eval of model.bin", 0, "m.bin")
    if exact(w.f) and not has(w.f, model.STATES, model.RANDOM):
        compare(max(logged), "netc eval in batches of 5", 2e-5, *with_weights, a, "-D", "batch=5")
    best = w.named("a.best")
    if w.f["best"] and os.path.exists(w.path(best)):
        compare(int(w.meta(best)["netc.step"]), "netc eval of the best", 0, *with_weights, best)
    w.run("init", "m.bin", "-o", "held.safetensors", "--device", "cpu", "-q")
    held, own = w.tensors("held.safetensors"), w.tensors(a)
    bad = [n for n in held if n in own and held[n] != own[n] and of_model(w.f, n)]
    if bad:
        raise Failed(f"model.bin holds other {bad}")


def of_model(f, name):
    """Whether a tensor is one that the model reads, which weights are loaded into."""
    updates = "velocity m v sum rows cols slow times kept usual" + (" average" if f["ema"] != "evaluate" else "")
    return name[0] != "@" and name != "rate" and name.split(".")[-1] not in updates.split()


@check(lambda f: not has(f, model.ROW_STATES))
def deployed(w):
    """netc run with weights and of model.bin, and netc predict in batches of any size."""
    a = w.train("a")
    with_weights = ("m.net", *w.compiling(), "--weights", a)
    rest = ["--entry", "fit", "--device", "cpu", "-q"]
    w.run("m.net", *with_weights[1:], "-o", "m.bin", "--target", "cpu", "-q", "--batch", f"1,{w.f['rows']}")
    w.run("run", *with_weights, *w.examples("--input"), *rest, "-o", "p=p.npy")
    w.run("run", "m.bin", *w.examples("--input"), *rest, "-o", "p=q.npy")
    want = read_npy(w.path("p.npy"))
    # (In 16 bits it depends on all that reads a value where it is rounded, and netc run leaves out taps.)
    if want != read_npy(w.path("q.npy")) and not (has(w.f, {"tap"}) and w.f["precision"] in ("bf16", "f16")):
        raise Failed("run with --weights and of model.bin differ")
    if has(w.f, model.RANDOM, {"ring", "highest", "count", "seen"}):
        return
    tolerance = 2e-5 if exact(w.f) else 5e-2 if w.f["precision"] == "bf16" or has(w.f, NARROW) else 5e-3
    for words in ((*with_weights, "-D", "batch=1"), (*with_weights, "-D", "batch=7"), ("m.bin",)):
        w.run("predict", *words, *w.examples(), *rest, "-o", "p=r.npy")
        have = read_npy(w.path("r.npy"))
        what = "predict " + " ".join(str(v) for v in words[-2:])
        if len(have) != len(want):
            raise Failed(f"{what}: {len(have)} numbers, run has {len(want)}")
        worst = max(abs(v - u) / (1 + abs(v)) for v, u in zip(want, have))
        if not worst <= tolerance:
            raise Failed(f"{what} differs by {worst} from run")


@check(lambda f: f["precision"] != "f16")
def trained_bin(w):
    """model.bin trains as the text does."""
    a = w.train("a")
    w.run("m.net", *w.compiling(), "-o", "m.bin", "--target", "cpu", "-q")
    w.same(a, w.train("b", net="m.bin", compiling=[]), "trained by model.bin")


# -- other hosts -----------------------------------------------------------------------------------

@check()
def python(w):
    """The Python package trains as netc does."""
    f = w.f = {**w.f, **NO_OPTIONS}
    a = w.train("a")
    evaluation = f"split={f['split']}" if f["split"] else "eval_data=test"
    w.python(f"""
data, test = ({{n: p + n + ".npy" for n in ("x", "y", "kind")}} for p in ("", "e"))
m.train(data, steps={f['steps']}, save="p.safetensors", shuffle={f['shuffle']}, keep_last={f['keep_last']},
        {evaluation}, eval_every={f['eval_every']}, save_best={f['best']!r}, patience={f['patience']}, progress=False)
""")
    w.same(a, "p.safetensors", "trained from Python")


@check(lambda f: f["accumulate"] == 1 and f["rate"] != "epoch" and f["rows"] > f["batch"])
def batches(w):
    """Python's iterable of batches, in order."""
    f = w.f = {**w.f, **NO_OPTIONS, "shuffle": False, "keep_last": False}
    a = w.train("a", **QUIET)
    w.python(f"""
import struct
def read(name, code, width):
    rows = list(struct.iter_unpack("<" + code * width, open(name + ".npy", "rb").read()[128:]))
    return rows if width > 1 else [v for v, in rows]
data = dict(x=read("x", "f", 6), y=read("y", "f", 1), kind=read("kind", "i", 1))
b, n = {f['batch']}, {f['rows']}
parts = [{{k: v[i:i + b] for k, v in data.items()}} for i in range(0, n - b + 1, b)]
m.train(parts * ({f['steps']} // len(parts) + 1), steps={f['steps']}, progress=False, save="p.safetensors")
""")
    w.same(a, "p.safetensors", "trained on batches from Python", meta=False)


@check()
def host(w):
    """A C program (tests/workflows/host.c) resumes, evaluates and runs with four kinds of state."""
    w.f = {**w.f, **NO_OPTIONS, "program": None, "seed": 0, "precision": "f32", "define": None, "limit": False,
           "keep_last": False, "shuffle": True}
    few = {**QUIET, "steps": 20}
    a = w.train("a", **few)
    w.interrupted("b", 9, **few)
    w.run("m.net", "--weights", a, "-o", "m.bin", "--target", "cpu", "-q")
    inputs = ["x=x.npy", "y=y.npy", "kind=kind.npy"]
    w.call([host_program(w), "m.net", "m.bin", "cpu", "fit", a, w.named("b"), "h.safetensors", *inputs])
    # (It has all entries, so it saves states, too, that only eval reads.)
    w.same(a, "h.safetensors", "resumed by the host", common=True)


def host_program(w):
    program = os.path.join(os.path.dirname(w.folder), "host")
    if not os.path.exists(program):
        w.call([os.environ.get("CC", "cc"), "-std=gnu17", "-I" + ROOT + "/include", ROOT + "/tests/workflows/host.c",
                BUILD + "/libnetc.a", "-o", "host", "-ldl", "-lm", "-lpthread", "-lz"])
        os.rename(w.path("host"), program)
    return program
