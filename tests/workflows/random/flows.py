#!/usr/bin/env python3
"""Random workflows: a random model is trained, saved, resumed, evaluated, run and compiled to a file with random
options, and ways that must give the same numbers are compared.

A workflow is a set of features, drawn from a seed and a number; model.py makes a model of them, flow.py the options.
A failure is cut down by leaving out one feature at a time. Its model, features and commands are written to a folder.

usage: flows.py [--seed S] [--first N] [--count N] [--seconds N] [--jobs N] [--checks N] [--only NAMES] [--out DIR]
"""

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import sys
import time

import checks
import flow
import model

PLAIN = {  # every feature left out
    # of the model
    "layers": [], "head": "values", "real": "f32", "critic": False, "target": False, "tally": False,
    # of its training program
    "optimizer": "sgd", "second": None, "rate": "number", "clip": None, "twice": False, "decay": False,
    "lookahead": False, "ema": None, "accumulate": 1, "recompute": False, "programs": False,
    # of the workflow
    "batch": 8, "rows": 48, "steps": 12, "cut": 5, "seed": 0, "precision": "f32", "program": None, "define": None,
    "set": None, "limit": False, "library": True, "reuse": True, "keep_last": False, "shuffle": True, "report": 1,
    "evaluate": True, "split": None, "eval_every": 4, "best": None, "patience": 0, "watch": None, "parts": False,
}
SHARES = {"critic": 0.2, "target": 0.15, "tally": 0.4, "twice": 0.1, "decay": 0.15, "lookahead": 0.15,
          "recompute": 0.15, "programs": 0.15, "keep_last": 0.25, "parts": 0.1, "limit": 0.1, "library": 0.85,
          "reuse": 0.85, "shuffle": 0.8}


def draw(seed, number):
    r = random.Random(f"{seed} {number}")
    f = dict(PLAIN)
    for name, share in SHARES.items():
        f[name] = r.random() < share
    f["layers"] = [r.choice(list(model.LAYERS)) for _ in range(r.randint(1, 5))]
    f["head"] = r.choice(["values", "classes"])
    f["real"] = r.choice(["f32"] * 9 + ["f64"])
    f["optimizer"] = r.choice(list(model.OPTIMIZERS))
    f["second"] = r.choice([None] * 2 + [r.choice([n for n in model.OPTIMIZERS if n != "muon"])])
    f["rate"] = r.choice(list(model.RATES))
    f["clip"] = r.choice([None] * 3 + ["norm", "value", "relative"])
    f["ema"] = r.choice([None] * 3 + ["update", "evaluate"])
    f["accumulate"] = r.choice([1, 1, 1, 2, 3])
    f["batch"] = r.choice([4, 6, 8, 12])
    f["rows"] = r.randint(40, 60)
    f["steps"] = r.randint(8, 24)
    f["cut"] = r.randint(1, f["steps"] - 1)
    f["seed"] = r.choice([0, 0, 1, 12345678901, -3])
    f["precision"] = r.choice(["f32"] * 4 + ["tf32", "bf16", "f16"])
    f["program"] = r.choice([None, "tune"]) if f["programs"] else None
    f["eval_every"] = r.choice([0, 1, 3, 5])
    f["split"] = r.choice([None] * 7 + [0.5, 0.7, 0.85])
    metrics = ["accuracy", "f1" if f["tally"] else "loss"] if f["head"] == "classes" else ["loss:max", "loss"]
    f["best"] = r.choice([None] * 2 + metrics)
    f["patience"] = r.choice([0, 0, 0, 2])
    f["watch"] = r.choice([None, "first.weight", "*"])
    f["report"] = r.choice([1, 1, 3, 100])
    read = ["rate"] if f["rate"] == "setting" and not f["program"] else []
    read += ["drop"] if "dropout_setting" in f["layers"] else []
    f["set"] = r.choice([None, r.choice(read) + "=0.02"]) if read else None
    f["define"] = r.choice([None] * 4 + [r.choice(["gain=0.5", "drop=0.3", "rate=0.005"])])
    return f


def simpler(f):
    """Workflows with one feature less."""
    for i in range(len(f["layers"])):
        yield {**f, "layers": f["layers"][:i] + f["layers"][i + 1:]}
    for name, plain in PLAIN.items():
        if name != "layers" and f[name] != plain:
            yield {**f, name: plain}


def failure(check, f, folder):
    """What a check says of a workflow, or None; the workflow."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    w = flow.Flow(f, folder)
    try:
        check(w)
    except flow.Refused:
        pass
    except flow.Failed as e:
        return str(e), w
    return None, w


def shrink(check, f, folder, kind):
    """The least workflow that fails in the same way."""
    for g in simpler(f):
        said, _ = failure(check, g, folder)
        if said and flow.kind(said) == kind:
            return shrink(check, g, folder, kind)
    return f


def write_failure(o, number, check, f, folder, said, w):
    """Cuts it down, unless it depends on the moment of a signal; returns what to print."""
    name = os.path.join(o.out, f"{number}.{check.__name__}")
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(folder, name)
    least = shrink(check, f, folder, flow.kind(said))
    less, its = failure(check, least, folder)
    if less:
        said, w, f = less, its, least
        shutil.rmtree(name)
        shutil.copytree(folder, name)
    with open(name + ".txt", "w") as out:
        print(f"flows.py --seed {o.seed} --first {number} --only {check.__name__}: {said}\n", file=out)
        print(json.dumps({k: v for k, v in f.items() if v != PLAIN[k]}), *w.commands, sep="\n", file=out)
        print("\n" + model.text(f), file=out)
    return f"{number}.{check.__name__} ({name}.txt): {said}"


def one(o, number):
    """How many checks were made of a workflow, and the failures."""
    f = draw(o.seed, number)
    folder = os.path.join(o.out, f"work{number}")
    wanted = [c for c in checks.CHECKS if c.fits(f) and (not o.only or c.__name__ in o.only.split(","))]
    if o.checks and len(wanted) > o.checks:
        wanted = random.Random(f"{o.seed} {number} checks").sample(wanted, o.checks)
    failures = []
    for check in wanted:
        said, w = failure(check, f, folder)
        if said:
            failures.append(write_failure(o, number, check, f, folder, said, w))
    shutil.rmtree(folder, ignore_errors=True)
    return len(wanted), failures


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    p.add_argument("--seed", default="1")
    p.add_argument("--first", type=int, default=0, help="the number of the first workflow")
    p.add_argument("--count", type=int, default=1, help="how many workflows")
    p.add_argument("--seconds", type=float, default=1e9, help="after which no workflow begins")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--checks", type=int, help="no more checks of each workflow than this")
    p.add_argument("--only", help="these checks, with commas")
    p.add_argument("--out", default="flows", help="folder of the failures")
    o = p.parse_args()
    o.out = os.path.abspath(o.out)
    os.makedirs(o.out, exist_ok=True)
    end = time.time() + o.seconds
    flows = made = failed = 0

    def run(number):
        return one(o, number) if time.time() < end else (0, [])
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for n, failures in pool.map(run, range(o.first, o.first + o.count)):
            flows += n > 0
            made += n
            failed += len(failures)
            print(*failures, sep="\n", end="\n" if failures else "", flush=True)
    print(f"{flows} workflows, {made} checks, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
