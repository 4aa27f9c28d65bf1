"""Training: what is told, what ends it, threads, forked processes."""

import io
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import netc
import numpy as np
from harness import check, raises, run, same, skip
from nets import CLOUDS, clouds

m = netc.compile(CLOUDS, name="clouds.net", device="cpu")
DATA, TEST = clouds(640), clouds(100)


def test_train():
    begin = m.evaluate(TEST)["loss"]
    kinds = []
    history = m.train(DATA, epochs=3, eval_data=TEST, on_event=lambda e: kinds.append(e.kind))
    check(kinds[0] == "start" and kinds[-1] == "end" and kinds.count("eval") == 3, kinds)
    check(history is m.history and history[-1]["step"] == 60 and "eval_accuracy" in history[-1])
    check(m.evaluate(TEST)["loss"] < begin / 2 and m.evaluate(TEST)["accuracy"] > 0.9)
    same(m.train(DATA, steps=7, split=0.5, watch=["fc1.weight"], report_every=7)[0]["step"], 7)
    check("norm" in " ".join(m.history[0]) or "fc1.weight" in " ".join(m.history[0]), m.history[0])


def test_made():
    text = """use nn
use optim
model made() {
    x = normal([16, 3], 1)
    return loss = mean((linear(x, 1) as fc) ** 2)
}
train made {
    minimize loss
    update adam(lr = 0.1)
}
"""
    made = netc.compile(text, name="made.net", device="cpu")
    history = made.train(steps=60, report_every=20)
    check(len(history) == 3 and history[-1]["loss"] < history[0]["loss"], history)
    with raises(netc.Error, "give steps=…"):
        made.train()


def test_devices():
    apart, together = (netc.compile(CLOUDS, name="clouds.net", device=d) for d in ("cpu,cpu", "cpu"))
    check("cpu,cpu" in repr(apart), apart)
    losses = [[row["loss"] for row in n.train(DATA, steps=10, report_every=1)] for n in (apart, together)]
    check(np.allclose(*losses, rtol=1e-4), losses)
    check(np.allclose(apart.state["fc1.weight"], together.state["fc1.weight"], atol=1e-4))
    same(round(apart.evaluate(TEST)["loss"], 4), round(together.evaluate(TEST)["loss"], 4))


def test_programs():
    text = CLOUDS + 'train side as head {\n    minimize loss over params("fc2.*")\n    update sgd(lr = rate)\n}\n'
    for program, still in (("head", True), ("side", False), (None, False)):
        h = netc.compile(text, name="clouds.net", device="cpu", program=program)
        before = h.state_dict()
        h.train(DATA, steps=3)
        same((h.state["fc1.weight"] == before["fc1.weight"]).all(), still)
        check((h.state["fc2.weight"] != before["fc2.weight"]).any())
    with raises(netc.Error, "'tail'"):
        netc.compile(text, name="clouds.net", device="cpu", program="tail")


def test_rate():
    rates, left = [], []

    def told(event):
        if event.kind == "eval":
            time.sleep(0.3)  # as a large one takes; the steps are no slower for it
        elif event.kind == "progress":
            rates.append(event.rate)
            left.append(event.seconds_left)
    m.train(DATA, steps=6, report_every=1, eval_data=TEST, eval_every=2, on_event=told)
    check(len(rates) == 6 and min(rates) > 2 * 32 / 0.3, rates)
    check(left[5] == 0 and left[3] > 0.3, left)  # with the evaluation that is to come


def test_bad_data():
    for data, words in [
        ({"x": DATA["x"]}, ["'label'"]),
        ({**DATA, "q": DATA["x"]}, ["no input 'q'"]),
        ({**DATA, "label": DATA["label"][:100]}, ["disagree", "640", "100"]),
        ({**DATA, "label": DATA["label"].astype("i4")}, ["u8[32]", "i32[640]"]),
        ({**DATA, "label": DATA["label"] + 7}, ["holds 7"]),
        ({**DATA, "x": DATA["x"][:, :1].copy()}, ["f32[32, 2]", "f32[640, 1]"]),
        ({**DATA, "x": DATA["x"][:, ::-1]}, ["the data for 'x'", "strides"]),
        ({**DATA, "x": "none.npy"}, ["none.npy"]),
        ({**DATA, "x": 3}, ["is not an array"]),
        ({**DATA, "x": np.float32(3).reshape(())}, ["axis 0"]),
        ({}, ["'x'", "'label'"]),
    ]:
        with raises(netc.Error, *words):
            m.train(data)
    with raises(TypeError, "names of inputs; 3 is not one"):
        m.train({3: DATA["x"]})
    with raises(TypeError):
        m.evaluate(3)
    with raises(netc.Error, "must be 0 or more"):
        m.train(DATA, epochs=float("nan"))
    with raises(netc.Error, 'save_best needs save=…'):  # by the names of here
        m.train(DATA, save_best="loss", eval_data=TEST)
    with raises(netc.Error, 'eval_every needs', 'eval_data={"NAME": …} or split=…'):
        m.train(DATA, eval_every=3)
    with raises(netc.Error, 'defines={"batch": N}'):
        m.train({k: v[:3] for k, v in DATA.items()})
    with raises(netc.Error, "numpy.asarray"):
        m.train({**DATA, "x": DATA["x"].tolist()})
    with raises(ValueError, "not both"):
        m.train(DATA, steps=1, epochs=1)
    for few in dict(epochs=0), dict(epochs=-1), dict(steps=0), dict(steps=-2):
        with raises(ValueError, "must be above 0"):
            m.train(DATA, **few)
    with raises(netc.Error, "split"):
        m.train(DATA, split=2)
    for watch in ["fc1.wieght"], "fc1.wieght":
        with raises(netc.Error, "'fc1.wieght'"):
            m.train(DATA, watch=watch)
    with raises(netc.Error, "no entry 'train'"):
        netc.compile("model a(x: f32[2]) { return y = x }", device="cpu").train({"x": DATA["x"]})


def test_predict():
    n = m.variant(defines={"batch": 100}, outputs="logits")
    want = n(x=TEST["x"])["logits"]
    got = m.predict({"x": TEST["x"]}, outputs="logits")  # 100 examples in batches of 32
    check(list(got) == ["logits"] and got["logits"].shape == (100, 2) and np.array_equal(got["logits"], want))
    whole = m.predict({k: v[:7] for k, v in TEST.items()})  # what has a value for each example
    check(list(whole) == ["logits"] and np.array_equal(whole["logits"], want[:7]))
    before = got["logits"].copy()
    m.train(DATA, steps=3)
    later = m.predict({"x": TEST["x"]}, outputs=["logits"])["logits"]
    check(not np.array_equal(later, want) and np.array_equal(before, got["logits"]), "it is of the state now")
    for data, more, words in [(TEST, {"outputs": "loss"}, ["no value for each example"]),
                              ({"x": TEST["x"]}, {"outputs": "none"}, ["no output 'none'"]),
                              ({}, {"outputs": "logits"}, ["'x'"]), ({"x": TEST["x"]}, {"entry": "eval"}, ["not a model"])]:
        with raises(netc.Error, *words):
            m.predict(data, **more)
    with raises(netc.Error, "m.evaluate computes"):
        netc.compile("dim batch = 2\nmodel a(x: f32[batch]) { return y = sum(x) }", device="cpu").predict({"x": TEST["x"][:, 0].copy()})


def test_lengths():
    """What schedules ask for, where the steps are the caller's own."""
    n = netc.compile(CLOUDS.replace("lr = rate", "lr = cosine(0.05, steps = total) * 0.5 ** epoch"), device="cpu")
    step, batch = n.entry("train"), {k: v[:32] for k, v in DATA.items()}
    for name in "@total", "@epoch_steps":
        with raises(netc.Error, f'm.state["{name}"] = N'):
            step(**batch)
        n.state[name] = 4
    step(**batch)
    check(n.state["@total"] == 4 and "@total" not in list(n.state))
    with raises(KeyError):
        m.state["@total"] = 4  # it has no such schedule
    n = netc.compile(CLOUDS.replace("lr = rate", "lr = 0.05 * 0.5 ** epoch"), device="cpu")
    with raises(netc.Error, "current epoch", "no len()"):
        n.train((batch for _ in range(3)), steps=3)
    n.train([batch] * 3, epochs=2)
    same(int(n.state["@epoch_steps"]), 3)
    o = netc.compile(CLOUDS.replace("lr = rate", "lr = 0.05 * 0.5 ** floor(step / 3)"), device="cpu")
    o.train([batch] * 3, epochs=2)
    check(np.array_equal(n.state["fc1.weight"], o.state["fc1.weight"]), "an epoch is 3 steps")


LINE = """
use optim
use nn
dim batch = 4
setting rate = 1e-5
model line(x: f32[batch, 3], y: f32[batch]) {
    return loss = mse((linear(x, 1) as fc)[:, 0], y)
}
train line {
    minimize loss
    update sgd(lr = rate)
}
"""


def test_not_finite():
    """No training leaves or saves values that are not finite."""
    r = np.random.default_rng(0)
    x = 100 * r.standard_normal((40, 3)).astype("f4")
    data = {"x": x, "y": x.sum(1)}
    batches = [{k: v[i * 4:i * 4 + 4] for k, v in data.items()} for i in range(10)]

    def equal(m, want):
        return all(np.array_equal(v, m.state[k]) for k, v in want.items() if k != "rate")
    n = netc.compile(LINE, device="cpu")
    n.train(batches, save="sound.safetensors")
    good = n.state_dict()
    for given in data, batches:
        for steps in 1, 5:
            n.load("sound.safetensors")
            n.settings["rate"] = 3e38
            # (After one step of a list, nothing but the parameters says so.)
            words = ["'fc.", "after step 1; parameters and states are those of step 0"] if given is batches and steps == 1 else []
            with raises(netc.Error, "not finite", *words):
                n.train(given, steps=steps, save="sound.safetensors")
            check(equal(n, good), (steps, n.state_dict()))
            check(equal(netc.compile(LINE, device="cpu", weights="sound.safetensors"), good), "the file that was there")

    # What was checked in between is not lost, and what is saved is of that step.
    def later(event):
        if event.step == 4 and event.kind == "progress":
            time.sleep(1)  # so that step 5 is checked and kept
        if event.step == 5 and event.kind == "progress":
            seen.update(n.state_dict())
            n.settings["rate"] = 3e38
    seen = {}
    n.load("sound.safetensors")
    with raises(netc.Error, "not finite", "those of step 5"):
        n.train(batches, steps=6, report_every=1, on_event=later, save="sound.safetensors")
    check(seen and equal(n, seen) and not equal(n, good))
    check(equal(netc.compile(LINE, device="cpu", weights="sound.safetensors"), seen))
    # Before the first batch, a state that is computed from it cannot be copied.
    first = LINE.replace("(linear(x, 1)", "(linear(x - middle, 1)").replace("    return", "    param middle: f32[3] = mean(x, 0)\n    return")
    o = netc.compile(first, device="cpu")
    o.train(batches, save="first.safetensors")
    check(np.array_equal(netc.compile(first, device="cpu", weights="first.safetensors").state["middle"], o.state["middle"]))
    # An input that only the initial value reads is given with the first batch.
    apart = netc.compile(first.replace("mean(x, 0)", "mean(start, 0)").replace("x: f32[batch, 3]", "x: f32[batch, 3], start: f32[batch, 3]"),
                         device="cpu")
    apart.settings["rate"] = 0
    with raises(netc.Error, "input 'start' of 'train' has no value"):
        apart.train(batches)
    apart.train([{**b, "start": 1 + b["x"]} for b in batches])
    check(np.allclose(apart.state["middle"], 1 + batches[0]["x"].mean(0), atol=1e-5))
    apart.train(batches)  # (it has a value)
    o = netc.compile(first, device="cpu")
    o.settings["rate"] = 3e38
    with raises(netc.Error, "not finite", "start again"):
        o.train(batches, steps=1, save="never.safetensors")
    check(not os.path.exists("never.safetensors"))


def test_again():
    """Every training begins at step 0, after another one and after loading, too."""
    text = CLOUDS.replace("lr = rate", "lr = linear_decay(0.05, steps = total)").replace(
        "logits\n}", "logits, at = cast(step, f32), rate = linear_decay(0.05, steps = total), ep = epoch\n}")
    n = netc.compile(text, device="cpu")
    batches = [{k: v[i * 32:i * 32 + 32] for k, v in DATA.items()} for i in range(10)]
    few = {k: v[:320] for k, v in DATA.items()}

    def steps(data):
        n.train(data, report_every=1)
        return [(row["at"], row["rate"], row["ep"]) for row in n.history]
    want = steps(few)
    check(want[0] == (0, np.float32(0.05), 0) and want[-1][0] == 9, want)
    for data in few, batches, batches:
        same(steps(data), want)
    n.save("again.safetensors")
    n = netc.compile(text, device="cpu")
    n.load("again.safetensors")
    same(steps(batches), want)
    n = netc.compile(text, device="cpu", weights="again.safetensors")
    same(steps(batches), want)


def test_own_runs():
    """Metrics are of an evaluation, or of the steps since a report, whatever ran before them."""
    text = CLOUDS.replace("logits\n}", "logits, n = tally(sum(ones([batch])))\n}")
    n = netc.compile(text, device="cpu")
    want, batch = n.evaluate(TEST), {k: v[:32] for k, v in DATA.items()}
    first = n.train(DATA, shuffle=False)[0]["loss"]
    n.load_state_dict(netc.compile(text, device="cpu").state_dict())
    for own in (lambda: n.entry("eval")(**batch), lambda: n.profile("eval", steps=2), lambda: n.profile("train", steps=2)):
        before = n.state_dict()
        own()
        check(all(np.array_equal(v, n.state[k]) for k, v in before.items()), "own runs left the state as it was")
        same(n.evaluate(TEST), want)
        own()
        same(n.train(DATA, shuffle=False)[0]["loss"], first)
        n.load_state_dict(before)
    same(float(n.entry("eval")(**batch)["n"]), 32.0)

    def runs(event):
        if event.kind == "progress":
            n.entry("eval")(**batch)
            with raises(netc.Error, "is being trained"):
                n.entry("train")(**batch)
    n.settings["rate"] = 0
    same({k: n.train(DATA, eval_data=TEST, on_event=runs)[-1]["eval_" + k] for k in want}, want)


class Oops(Exception):
    pass


def test_callbacks():
    seen = []

    def fails(event):
        seen.append(event)
        if event.kind == "progress":
            # From a callback the model may be looked at and called; not trained.
            m.state["fc2.bias"] = m.state["fc2.bias"]
            m(x=DATA["x"][:32], label=DATA["label"][:32])
            with raises(netc.Error, "from a callback"):
                m.train(DATA)
            with raises(netc.Error, "from a callback"):
                m.close()
            raise Oops("stop here")
    m.state["fc1.bias"] = np.zeros(8, "f4")
    with raises(Oops, "stop here"):
        m.train(DATA, epochs=100, report_every=10, on_event=fails, save="kept.safetensors")
    check(len(m.history) == 1 and m.history[0]["step"] == 10 and seen[-1].kind == "end")
    check(m.state["fc1.bias"].any())  # what was trained is kept
    kept = netc.compile(CLOUDS, device="cpu", weights="kept.safetensors")
    check((kept.state["fc1.bias"] == m.state["fc1.bias"]).all())

    def ends(event):
        if event.kind == "progress":
            raise StopIteration
    same(len(m.train(DATA, epochs=100, report_every=10, on_event=ends)), 1)
    same(len(m.train(DATA, epochs=2, report_every=20)), 2)  # and nothing is left behind
    with raises(TypeError):
        m.train(DATA, on_event=3)
    def always(event):
        raise StopIteration
    for data in (DATA, [(DATA["x"][:32], DATA["label"][:32])] * 4):  # of the last event, too
        same(len(m.train(data, on_event=always)), 0)
    # Batches of an iterable are calls of the entry: a callback can close the model, which ends them.
    with raises(ValueError, "closed"):
        kept.train([(DATA["x"][:32], DATA["label"][:32])] * 4, on_event=lambda event: kept.close())


def test_batches():
    def batches(n):
        for i in range(n):
            at = slice(i % 20 * 32, i % 20 * 32 + 32)
            yield {"x": DATA["x"][at], "label": DATA["label"][at]}
    history = m.train(batches(10), report_every=5)
    same([r["step"] for r in history], [5, 10])
    same(len(m.train(list(batches(40)), epochs=3)), 60)  # about twenty reports an epoch
    same(m.train(list(batches(4)), epochs=2)[-1]["step"], 8)
    same(m.train(((DATA["x"][:32], DATA["label"][:32]) for _ in range(9)), steps=3)[-1]["step"], 3)
    with raises(TypeError, "no value for 'label'"):
        m.train([{"x": DATA["x"][:32]}])
    with raises(TypeError, "a batch of 1 arrays, where 'train' takes x, label"):
        m.train([(DATA["x"][:32],)])
    with raises(TypeError, 'a dict of arrays, {"x": …}'):
        m.train((DATA["x"], DATA["label"]))
    with raises(netc.Error, "f32[32, 2]", "f32[5, 2]", "drop_last=True"):  # what a loader gives at the end
        m.train([(DATA["x"][:n], DATA["label"][:n]) for n in (32, 5)])
    with raises(ValueError, "dict of arrays"):
        m.train(batches(3), eval_data=TEST)
    with raises(netc.Error, "no batches"):
        m.train(batches(3), epochs=2)

    def broken():
        yield from batches(2)
        raise Oops("the loader")
    with raises(Oops, "the loader"):
        m.train(broken(), save="loader.safetensors")
    check(os.path.exists("loader.safetensors"))
    counted = netc.compile(CLOUDS.replace("lr = rate", "lr = cosine(0.05, steps = total)"), device="cpu")
    with raises(netc.Error, "steps=N"):
        counted.train(batches(3))
    check(np.isfinite(counted.train(batches(30), steps=6)[-1]["loss"]))


def test_progress():
    for columns in ("80", "30"):
        os.environ["COLUMNS"] = columns
        err, sys.stderr = sys.stderr, io.StringIO()
        try:
            m.train(DATA, epochs=1, progress=True)
            text = sys.stderr.getvalue()
            sys.stderr = io.StringIO()
            m.train(DATA, epochs=1)
            quiet = sys.stderr.getvalue()
        finally:
            sys.stderr = err
        lines = text.split("\r\033[K")[1:]
        check(len(lines) >= 20 and "20/20 epoch 1/1" in lines[-1][:80] or columns == "30", lines[-1:])
        check(all(len(x.rstrip("\n")) < int(columns) for x in lines) and text.endswith("\n"))
        same(quiet, "")


def test_settings():
    same(dict(m.settings).keys(), {"rate"})
    m.settings["rate"] = 0.0
    same(repr(m.settings), "<netc settings {'rate': 0.0}>")
    before = m.state["fc1.weight"]
    m.train(DATA, steps=3)
    check((before == m.state["fc1.weight"]).all())
    m.settings["rate"] = 0.05
    with raises(netc.Error, "no setting 'q'"):
        m.settings["q"] = 1


INTERRUPTED = """
import netc, sys
from nets import CLOUDS, clouds
m = netc.compile(CLOUDS, device="cpu")
data = clouds(640)
def told(e):
    if e.kind == "progress": print("step", flush=True)
try:
    if sys.argv[1] == "arrays":
        m.train(data, epochs=1e6, on_event=told, save="interrupted.safetensors")
    else:
        m.train([{k: v[:32] for k, v in data.items()}] * 100, epochs=1000000, on_event=told, save="interrupted.safetensors")
except KeyboardInterrupt:
    trained = m.evaluate(data)
    assert len(m.history)
    m.load("interrupted.safetensors")
    assert m.evaluate(data) == trained
    print("kept")
"""


def test_interrupt():
    for how in ("arrays", "batches"):
        p = subprocess.Popen([sys.executable, "-c", INTERRUPTED, how], stdout=subprocess.PIPE)
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        check(p.communicate()[0].endswith(b"kept\n"))
        same(p.returncode, 0)
        os.unlink("interrupted.safetensors")


def test_threads():
    x, label = DATA["x"][:32], DATA["label"][:32]
    want = m(x=x, label=label)["logits"]
    wrong = []

    def calls():
        for _ in range(200):
            if not (m(x=x, label=label)["logits"] == want).all():
                wrong.append(1)
    threads = [threading.Thread(target=calls) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    same(wrong, [])
    # Others run while a model trains; one that wants the same model waits.
    went, over = [], threading.Event()

    def counts():
        while not over.is_set():
            went.append(time.perf_counter())
            time.sleep(0.001)
    t = threading.Thread(target=counts)
    other = threading.Thread(target=lambda: m.train(DATA, epochs=300, report_every=2000))
    t.start(), other.start()
    m.train(DATA, epochs=300, report_every=2000)
    other.join()
    over.set(), t.join()
    check(len(went) > 3, len(went))


def test_fork():
    x, label = DATA["x"][:32], DATA["label"][:32]
    want = m(x=x, label=label)["logits"]
    busy = threading.Thread(target=lambda: m.train(DATA, epochs=200))
    busy.start()
    time.sleep(0.02)  # its lock is held by a thread that the child does not have
    child = os.fork()
    if not child:
        try:
            m(x=x, label=label)
            fresh = netc.compile("model a(x: f32[2]) { return y = x + 1 }", device="cpu")
            os._exit(0 if fresh(x=[1, 2])["y"].tolist() == [2, 3] else 1)
        except BaseException as e:
            print("in the child:", repr(e), flush=True)
            os._exit(2)
    end = time.monotonic() + 1200
    done = (0, 0)
    while not done[0] and time.monotonic() < end:
        done = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not done[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    same(done, (child, 0))
    busy.join()
    check(want.shape == (32, 2))


def test_images_and_best():
    import struct
    import tempfile
    import zlib
    net = """use nn
use optim
dim batch = 4
model m(x: u8[batch, 4, 4, 3], label: u8[batch] in 0..2) {
    logits = linear(flatten(cast(x, f32) / 255), 2)
    return loss = cross_entropy(logits, label), accuracy = accuracy(logits, label)
}
train m {
    minimize loss
    update sgd(lr = 0.5)
}
"""
    if not all(row["ok"] for row in netc.doctor() if row["what"] == "PNG images"):
        skip("libspng is not there")
        return

    def png(path, side, value):
        def chunk(name, data):
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        row = b"\0" + bytes([value]) * 3 * side
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                         chunk(b"IDAT", zlib.compress(row * side)) + chunk(b"IEND", b""))
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for c, name in enumerate(["dark", "light"]):
            (root / name).mkdir()
            for i in range(8):
                png(root / name / f"{i}.png", 4 if i else 9, 20 + 200 * c + i)
        (root / "dark/z.png").write_text("no image")
        n = netc.compile(net, name="m.net", device="cpu")
        with raises(netc.Error, "9 x 9 pixels, and 4 x 4 are expected"):
            n.train({"x": netc.Images(root, skip_bad=True), "label": root}, epochs=1)
        data = {"x": netc.Images(root, resize=True, skip_bad=True), "label": root}
        n.train(data, epochs=9, eval_data=data, save=root / "m.safetensors", save_best="accuracy", patience=3)
        check(n.evaluate(data)["accuracy"] == 1 and (root / "m.best.safetensors").exists())
        check(n.history[-1]["step"] < 36, "patience ends it")


run(globals())
