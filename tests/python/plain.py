"""Without NumPy: lists in, netc.Array out."""

import os
import pathlib
import sys
import tempfile

sys.modules["numpy"] = None  # importing it fails

import netc
from harness import check, raises, run, same
from nets import ADD, CLOUDS

m = netc.compile(ADD, device="cpu")


def test_lists():
    out = m(x=[1, 2, 3, 4], y=[0, 0, 0, 1.5])
    check(type(out["z"]) is netc.Array)
    same((out["z"].tolist(), out["z"].shape, out["z"].dtype, len(out["z"])), ([1, 2, 3, 5.5], (4,), "f32", 4))
    same((float(out["s"]), int(out["s"]), out["s"].tolist(), out["s"].shape), (10.0, 10, 10.0, ()))
    same(memoryview(out["z"]).tolist(), [1, 2, 3, 5.5])
    same(repr(out["z"]), "netc.Array(f32[4], [1.0, 2.0, 3.0, 5.5])")
    same(m(x=out["z"], y=[0, 0, 0, 0])["z"].tolist(), [1, 2, 3, 5.5])
    m.state["w"] = [2, 2, 2, 2]
    same(m.state["w"].tolist(), [2, 2, 2, 2])
    with raises(TypeError):
        len(out["s"])
    with raises(ValueError):
        out["z"].item()
    with raises(netc.Error, "different lengths"):
        m(x=[[1, 2], [3]], y=[0, 0, 0, 0])
    with raises(netc.Error, "f32[2, 2]"):
        m(x=[[1, 2], [3, 4]], y=[0, 0, 0, 0])
    with raises(netc.Error, "is a dict"):
        m(x={}, y=[0, 0, 0, 0])


def test_own_kernels():
    with tempfile.TemporaryDirectory() as folder:
        model, own = os.path.join(folder, "m.net"), os.path.join(folder, "own.cu")
        with open(own, "w") as f:
            f.write("__global__ void tripled(const float *x, float *y) { y[threadIdx.x] = 3 * x[threadIdx.x]; }\n")
        with open(model, "w") as f:
            f.write('extern fn tripled(x) from "own.cu" {\n    out y: f32[shape(x)]\n    launch tripled(x, y) grid = 1, block = 4\n'
                    '    reference { return 3 * x }\n}\nmodel m(x: f32[4]) { return y = tripled(x) }\n')
        p = netc.compile(model, device="cpu")
        same(p(x=[1, 2, 3, 4])["y"].tolist(), [3, 6, 9, 12])
        name = next(w for w in p.emit("plan").split() + p.emit("cuda").split() if w.startswith("tripled_"))
        check("y[threadIdx.x] = 3 * x[threadIdx.x]" in p.kernel(name.strip(":,"), target="cuda"))
        os.remove(own)
        with raises(netc.Error, "cannot read"):
            netc.compile(model, device="cpu")


def test_words():
    clouds = netc.compile(CLOUDS, device="cpu")
    with raises(netc.Error, "needs data for input 'label'; give data={\"label\": …}"):
        clouds.train({"x": m(x=[0, 0, 1, 1], y=[0, 0, 0, 0])["z"]}, steps=1)
    with tempfile.TemporaryDirectory() as folder:
        with raises(ValueError, "written as .safetensors"):
            m.save(os.path.join(folder, "m.npz"))
        m.save(os.path.join(folder, "m.safetensors"))
        same(os.listdir(folder), ["m.safetensors"])


def test_paths():
    """Paths are str, bytes or PathLike, also of names that are not UTF-8."""
    with tempfile.TemporaryDirectory() as folder:
        odd = os.path.join(os.fsencode(folder), b"odd\xff")
        at = os.fsdecode(odd)
        with open(odd + b".net", "w") as f:
            f.write(CLOUDS)
        with open(odd + b".csv", "w") as f:
            f.write("0.5,1\n" * 64)
        with open(odd + b".y.csv", "w") as f:
            f.write("1\n" * 64)
        with open(odd + b".tune", "w") as f:
            f.write("# netc tune 1\n")
        c = netc.compile(at + ".net", device="cpu", cache_dir=pathlib.Path(at), tune_file=pathlib.Path(at + ".tune"))
        check(c.name == os.path.basename(at + ".net") and os.listdir(odd))
        data = {"x": at + ".csv", "label": pathlib.Path(at + ".y.csv")}
        said = []
        c.train(data, save=at + ".safetensors", on_event=lambda e: said.append(e.text))
        check(any(t and t.endswith("odd\ufffd.safetensors") for t in said), said)
        c.save(odd + b".bin")
        c.load(pathlib.Path(at + ".safetensors"))
        netc.compile(odd + b".bin", weights=odd + b".safetensors").close()
        check("odd\ufffd.net" in c.inspect(params=True))
        with raises(netc.Error, "odd\ufffd.none"):
            c.load(at + ".none")
        with raises(netc.Error, "odd\ufffd.none"):
            netc.Tokenizer(odd + b".none")
        for path in folder + "/a\0b", folder.encode() + b"/a\0b":
            with raises(ValueError, "null"):
                c.save(path)  # to "a"
        same(sorted(f for f in os.listdir(folder) if f.startswith("a")), [])
        # What cannot be written is said before the work.
        batch = [{"x": [[0.5, 1]] * 32, "label": [0] * 32}]
        for lost in os.path.join(folder, "none", "m.safetensors"), "":
            for examples in data, batch:
                events = []
                with raises(netc.Error, "none/m.safetensors" if lost else "name of a file is empty"):
                    c.train(examples, save=lost, on_event=events.append)
                same(events, [])
    for device in 0, 1:
        with raises(TypeError, "a device is a str"):
            netc.compile(ADD, device=device)


run(globals())
