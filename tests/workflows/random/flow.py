"""One workflow: its folder with model and data, the commands that its features ask for, comparisons."""

import array
import fcntl
import json
import math
import os
import random
import re
import signal
import subprocess

import model
from files import first_values, read_checkpoint, save_npy

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
NETC = os.path.abspath(os.environ.get("NETC", ROOT + "/build/netc"))
BUILD = os.path.abspath(os.environ.get("BUILD", ROOT + "/build"))
LIMIT = 1200  # seconds after which a command hangs
INPUTS = ("x", "y", "kind")
EVALUATED = 29  # examples to evaluate on
MEMORY = 9000  # bytes, where memory is limited
F_SETPIPE_SZ = 1031

# What netc says of workflows that ask for what it does not do.
REFUSALS = [
    "omit --keep-last", "taps cannot be watched in a step of several micro-batches", "fewer than a batch of",
    "leaves none of", "cannot be split into", "memory limit of", "be a batch of their own", "be a batch of its own",
]


class Failed(Exception):
    pass


class Refused(Exception):
    pass


def kind(said):
    """What a failure has in common with those that differ only in numbers."""
    return re.sub(r"[0-9.e+-]+", "#", said)[:60]


class Flow:
    def __init__(self, features, folder):
        self.f, self.folder, self.commands = features, folder, []
        self.write("m.net", model.text(features))
        self.data(features["rows"], "")
        self.data(EVALUATED, "e")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)

    def data(self, n, prefix):
        r = random.Random(n)
        x = [r.gauss(0, 1) for _ in range(n * 6)]
        y = [math.sin(x[6 * i]) + 0.5 * x[6 * i + 1] for i in range(n)]
        save_npy(self.path(prefix + "x.npy"), "<f4", (n, 6), array.array("f", x))
        save_npy(self.path(prefix + "y.npy"), "<f4", (n,), array.array("f", y))
        save_npy(self.path(prefix + "kind.npy"), "<i4", (n,), array.array("i", [int(abs(7 * v)) % 5 for v in y]))

    # -- commands ----------------------------------------------------------------------------------

    def ended(self, code, text, what, wanted=(0,)):
        if code in wanted:
            return
        refused = code == 1 and any(r in text for r in REFUSALS)
        raise (Refused if refused else Failed)(f"exit {code} of {what}: {text[-900:]}")

    def call(self, words, **env):
        """The standard output of a program that ends well."""
        words = [str(w) for w in words]
        self.commands.append(" ".join(words))
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT,
                              env={**os.environ, **env})
        self.ended(done.returncode, done.stdout + done.stderr, " ".join(words[:2]))
        return done.stdout

    def run(self, *words, **env):
        return self.call([NETC, *words], **env)

    def compiling(self, **change):
        """The options of compilation."""
        f = {**self.f, **change}
        out = ["--precision", f["precision"]]
        out += ["--program", f["program"]] if f["program"] else []
        out += ["-D", f["define"]] if f["define"] else []
        out += ["--memory-limit", MEMORY] if f["limit"] else []
        out += [] if f["library"] else ["--no-library"]
        return out + ([] if f["reuse"] else ["--no-reuse"])

    def examples(self, option="--data", prefix=""):
        return [word for n in INPUTS for word in (option, f"{n}={prefix}{n}.npy")]

    def training(self, compiling=None, **change):
        """The options of train but for what is saved. compiling: instead of those of compilation."""
        f = {**self.f, **change}
        out = [*self.examples(), "--steps", f["steps"], "--seed", f["seed"], "--device", f.get("device", "cpu")]
        out += self.compiling(**change) if compiling is None else compiling
        if f["evaluate"]:
            out += ["--split", f["split"]] if f["split"] else self.examples("--eval-data", "e")
            out += ["--eval-every", f["eval_every"]] if f["eval_every"] else []
            out += ["--patience", f["patience"]] if f["patience"] else []
            out += ["--save-best", f["best"]] if f["best"] else []
        out += ["--set", f["set"]] if f["set"] else []
        out += ["--keep-last"] if f["keep_last"] else []
        out += [] if f["shuffle"] else ["--no-shuffle"]
        out += ["--watch", f["watch"]] if f["watch"] else []
        return out + ["--report-every", f["report"]]

    def named(self, stem):
        """The checkpoint of this name."""
        return stem + (".safetensors.index.json" if self.f["parts"] else ".safetensors")

    def saving(self, stem):
        return ["--save", self.named(stem), *(["--part-size", 2000] if self.f["parts"] else [])]

    def train(self, stem, *more, net="m.net", env={}, **change):
        """Trains, writes the checkpoint and the log of this name; returns the checkpoint."""
        options = [*self.training(**change), *self.saving(stem), "--log", stem + ".log", "-q"]
        self.run("train", net, *options, *more, **env)
        return self.named(stem)

    def interrupted(self, stem, step, *more, kill=False, **change):
        """Trains until it has reported the step and gets a signal; with SIGINT it goes on for some steps."""
        options = [*self.training(**{**change, "report": 1}), *self.saving(stem), "--json"]
        words = [str(w) for w in [NETC, "train", "m.net", *options, *more]]
        self.commands.append(" ".join(words) + f"  # a signal after step {step}")
        pipe = subprocess.PIPE
        p = subprocess.Popen(words, cwd=self.folder, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        fcntl.fcntl(p.stdout, F_SETPIPE_SZ, 4096)  # so that it waits for the reader
        for line in p.stdout:
            if line.startswith("{") and json.loads(line)["step"] >= step:
                p.send_signal(signal.SIGKILL if kill else signal.SIGINT)
                break
        text = p.stdout.read() + p.stderr.read()
        p.stdout.close()
        self.ended(p.wait(LIMIT), text, "an interrupted training", (0, -signal.SIGKILL) if kill else (0, 130))
        return os.path.exists(self.path(self.named(stem)))

    def python(self, script):
        """Runs a script after the text in it has been compiled as m."""
        f = self.f
        defines = {k: float(v) for k, v in [f["define"].split("=")]} if f["define"] else {}
        self.write("p.py", "import netc\n"
                   f"m = netc.compile('m.net', device='cpu', precision={f['precision']!r}, seed={f['seed']}, "
                   f"defines={defines}, program={f['program']!r}, memory_limit={MEMORY if f['limit'] else 0})\n"
                   + script)
        self.call([os.environ.get("PYTHON", "python3"), "p.py"], PYTHONPATH=BUILD + "/python")

    # -- comparisons -------------------------------------------------------------------------------

    def tensors(self, name):
        return read_checkpoint(self.path(name))[1]

    def meta(self, name):
        return read_checkpoint(self.path(name))[0]

    def same(self, a, b, what, meta=True, common=False):
        """Two checkpoints have the same bits. meta: they also say the same; common: only the tensors of both."""
        x, y = self.tensors(a), self.tensors(b)
        names = sorted(set(x) & set(y))
        if not common and set(x) != set(y):
            raise Failed(f"{what}: other tensors: {sorted(set(x) ^ set(y))[:5]}")
        bad = [n for n in names if x[n] != y[n]]
        if bad:
            values = f"{first_values(x[bad[0]])} and {first_values(y[bad[0]])}"
            raise Failed(f"{what}: tensors differ: {', '.join(bad[:6])} of {len(names)}: {values}")
        mine, other = self.meta(a), self.meta(b)
        if meta and mine != other:
            said = [(k, mine.get(k), other.get(k)) for k in {**mine, **other} if mine.get(k) != other.get(k)]
            raise Failed(f"{what}: the checkpoints say {said}")

    def log(self, stem, evaluations=None):
        """The rows of a log. evaluations: only these, or only the others."""
        rows = [json.loads(line) for line in open(self.path(stem + ".log"))]
        for row in rows:
            del row["seconds"]
        return [r for r in rows if evaluations in (None, any(k.startswith("eval_") for k in r))]

    def evaluations(self, stem):
        """The results of the evaluations in a log, by step."""
        return {r["step"]: {k[5:]: v for k, v in r.items() if k.startswith("eval_")} for r in self.log(stem, True)}

    def close(self, a, b, tolerance, what):
        """Two lists of rows of numbers agree."""
        if len(a) != len(b):
            raise Failed(f"{what}: {len(a)} rows and {len(b)}")
        for i, (x, y) in enumerate(zip(a, b)):
            if set(x) != set(y):
                raise Failed(f"{what}: row {i} has other names: {sorted(set(x) ^ set(y))}")
            for k in x:
                v, w = x[k], y[k]
                numbers = isinstance(v, (int, float)) and isinstance(w, (int, float))
                if v != w and not (numbers and abs(v - w) <= tolerance * (1 + abs(v))):
                    raise Failed(f"{what}: {k} in row {i} is {v} and {w}")
