"""Calls, arrays in and out, errors, state: on the CPU."""

import array
import copy
import ctypes
import gc
import pickle
import sys
import weakref

import netc
import numpy as np
from harness import check, raises, run, same, skip
from nets import ADD, CLOUDS
from producer import Producer

m = netc.compile(ADD, name="add.net", device="cpu")
X = np.arange(4, dtype=np.float32)


def test_call():
    out = m(x=X, y=X)
    same(list(out), ["z", "s"])
    check(type(out["z"]) is np.ndarray and out["z"].dtype == np.float32 and out["z"].shape == (4,))
    same(out["z"].tolist(), [0, 2, 4, 6])
    same(out["s"].shape, ())
    same(float(m(X, y=X)["s"]), 6.0)  # by position
    kept = out["z"]
    m(x=X + 1, y=X)
    same(kept.tolist(), [0, 2, 4, 6])  # results are the caller's
    for x in ([0, 1, 2, 3], (0.0, 1, 2, 3), array.array("f", X), memoryview(X), X[::-1][::-1]):
        same(m(x=x, y=X)["z"].tolist(), [0, 2, 4, 6])
    frozen = X.copy()
    frozen.flags.writeable = False
    same(m(x=frozen, y=X)["z"].tolist(), [0, 2, 4, 6])


def test_entry():
    e = m.entry("add")
    check(m.entry("add") is e and m.entry().name == "add")
    same(e.inputs, [("x", "f32", (4,), True), ("y", "f32", (4,), True)])
    same([o[:3] for o in e.outputs], [("z", "f32", (4,)), ("s", "f32", ())])
    same(e(x=X, y=X)["z"].tolist(), [0, 2, 4, 6])
    check("add(x: f32[4], y: f32[4])" in repr(e) and "z: f32[4]" in repr(m) and "cpu" in repr(m))
    with raises(netc.Error, "no entry 'ad'", "add"):
        m.entry("ad")
    two = netc.compile("model a(x: f32[2]) { return y = x }\nmodel b(x: f32[2]) { return y = -x }", device="cpu")
    with raises(netc.Error, "a, b"):
        two(x=[1, 2])
    same(two.entry("b")(x=[1, 2])["y"].tolist(), [-1, -2])


def test_places():
    z, s = np.zeros(4, "f4"), np.zeros((), "f4")
    out = m(x=X, y=X, out={"z": z, "s": s})
    check(out["z"] is z and out["s"] is s and z.tolist() == [0, 2, 4, 6] and s == 6)
    check(m(X, X, out={"z": z})["s"] == 6)
    same(m(x=z, y=X, out={"z": z})["z"].tolist(), [0, 3, 6, 9])  # an input may be its own output's place
    frozen = np.zeros(4, "f4")
    frozen.flags.writeable = False
    for place, kind, words in [(np.zeros(4), netc.Error, ["output 'z' is f32[4]", "f64[4]"]),
                               (np.zeros(3, "f4"), netc.Error, ["f32[3]"]),
                               (np.zeros(8, "f4")[::2], netc.Error, ["strides"]),
                               (frozen, netc.Error, ["'z' cannot be written to"]),
                               ([0, 0, 0, 0], netc.Error, ["is not an array"]),
                               (Producer(frozen), netc.Error, ["cannot be written"])]:
        with raises(kind, *words):
            m(x=X, y=X, out={"z": place})
    with raises(TypeError, "no output 'q'"):
        m(x=X, y=X, out={"q": z})
    with raises(TypeError, "dict"):
        m(x=X, y=X, out=z)
    named = netc.compile("model named(out: f32[2]) { return y = out + 1 }", device="cpu")
    same(named(out=[1, 2])["y"].tolist(), [2, 3])
    again = []

    class Calls(Producer):  # a producer that calls the model while its inputs are being taken
        def __dlpack__(self, **keywords):
            if not again:
                again.append(m(x=np.ones(4, "f4"), y=np.ones(4, "f4"))["z"].tolist())
            return super().__dlpack__(**keywords)
    same(m(x=X, y=Calls(X))["z"].tolist(), [0, 2, 4, 6])
    same(again, [[2, 2, 2, 2]])


def test_bad_calls():
    for arguments, kind, words in [
        (dict(x=X), TypeError, ["no value for 'y'", "y: f32[4]"]),
        (dict(x=X, y=X, q=X), TypeError, ["no input 'q'", "x: f32[4]"]),
        (dict(x=X, q=X), TypeError, ["no input 'q'"]),
        (dict(x=X.astype("f8"), y=X), netc.Error, ["'x' is f32[4]", "f64[4]"]),
        (dict(x=X[:3], y=X), netc.Error, ["'x' is f32[4]", "f32[3]"]),
        (dict(x=X.reshape(2, 2), y=X), netc.Error, ["f32[2, 2]"]),
        (dict(x=np.zeros(8, "f4")[::2], y=X), netc.Error, ["strides of (8)", "(4)"]),
        (dict(x=np.zeros(4, "i2"), y=X), netc.Error, ["'x' must be f32[4]", "'h'"]),
        (dict(x=np.zeros(4, ">f4"), y=X), netc.Error, ["'>f'"]),
        (dict(x=np.zeros(17, "u1")[1:].view("f4"), y=X), netc.Error, ["not aligned to"]),
        (dict(x="text", y=X), netc.Error, ["is a str"]),
        (dict(x=None, y=X), netc.Error, ["NoneType"]),
        (dict(x=[[1], [2, 3]], y=X), netc.Error, ["different lengths"]),
        (dict(x=[1, "a", 2, 3], y=X), netc.Error, ["'x' must be f32"]),
        (dict(x=np.zeros((1,) * 9, "f4"), y=X), netc.Error, ["9 axes"]),
        (dict(x=np.ma.array(X, mask=[1, 0, 0, 0]), y=X), netc.Error, ["'x' is a masked array", "a.filled(0)"]),
        (dict(x=[np.ma.masked, 1, 2, 3], y=X), netc.Error, ["'x'"]),
        (dict(x=X, y=X, out={"z": np.ma.zeros(4, "f4")}), netc.Error, ["a masked array"]),
    ]:
        with raises(kind, *words):
            m(**arguments)
    with raises(TypeError, "too many"):
        m(X, X, X)
    unneeded = netc.compile("use optim\nmodel u(x: f32[4], mask: f32[4], y: f32[4]) {\n param w: f32[4] = 1\n"
                            " return d = x - y, loss = sum(w * (x - y))\n}\n"
                            "train u {\n minimize loss\n update sgd(lr = 0.5)\n}\n", device="cpu")
    same(unneeded.entry("u").declared, ["x", "mask", "y"])
    for give in (X, X), (X, X, X):  # what would be y is not taken for it, nor left out
        with raises(TypeError, "must be given by name", "'mask'", "y: f32[4]"):
            unneeded(*give)
    same(unneeded(X, y=X + 1, mask=X)["d"].tolist(), [-1] * 4)
    unneeded.train([(X, X, X + 1)] * 2, epochs=1)
    with raises(TypeError, "a batch of 2 arrays, where 'train' takes x, mask, y"):
        unneeded.train([(X, X + 1)], epochs=1)
    first = netc.compile("model u(x: f32[4], label: f32[4]) { return y = 2 * x, l = sum(x - label) }", device="cpu")
    same(first.variant(outputs=["y"])(X)["y"].tolist(), (2 * X).tolist())  # what is left out stands behind it
    with raises(TypeError, "two values for 'x'"):
        m(X, x=X)
    with raises(TypeError):
        netc.Model()
    with raises(TypeError):
        netc.Array()
    same(m(x=[np.float32(1), 2, np.ones((), "i4"), X[3]], y=list(X))["s"].tolist(), 7)  # lists of arrays
    for bare in (netc.Model.__new__(netc.Model), ):
        with raises(AttributeError):
            bare(x=X)
    import netc._netc as c
    with raises((ValueError, TypeError)):
        c.Model().close() or c.Model()._entries()
    with raises((ValueError, TypeError)):
        c.Array().shape
    with raises((ValueError, TypeError)):
        c.Entry()()
    same(m(x=X, y=X)["z"].tolist(), [0, 2, 4, 6])  # nothing of this did harm


def test_errors():
    try:
        netc.compile("model a(x: f32[4]) {\n    return y = x +\n}\n", device="cpu")
    except netc.Error as e:
        check("model.net:3:1: error: unexpected '}'" in str(e) and "      | ^" in str(e), str(e))
        same((e.diagnostics[0]["line"], e.diagnostics[0]["file"], e.status), (3, "model.net", "invalid"))
    else:
        check(False, "no error")
    with raises(netc.Error, "cannot open none.net"):
        netc.compile("none.net")
    with raises(netc.Error, "no device 'gpu'"):
        netc.compile(ADD, device="gpu")
    with raises(netc.Error, "unknown precision"):
        netc.compile(ADD, precision="f8")
    with raises(netc.Error, "q"):
        netc.compile(ADD, defines={"q": 1})
    with raises(netc.Error, "(tune_file=…)"):  # by its name here
        netc.compile(ADD, device="cpu").tune(1)
    with raises(UnicodeEncodeError):
        netc.compile("model \udc80 {\n}")
    with raises(ValueError):
        netc.compile("model \0 {\n}")
    with raises(TypeError):
        netc.compile(3)
    tight = netc.compile("model pick(i: i32[2] in 0..3) { return y = tensor([1.0, 2, 3])[i] }", device="cpu")
    same(tight(i=[2, 0])["y"].tolist(), [3, 1])
    with raises(netc.Error, "holds 3"):
        tight(i=[2, 3])


def test_types():
    text = "model t(b: bool[2], u: u8[2], i: i32[2], w: u32[2], l: i64[2], h: f16[2], d: f64[2]) {\n" \
           "    return ob = b, ou = u, oi = i, ow = w, ol = l, oh = h, od = d\n}"
    t = netc.compile(text, device="cpu")
    given = dict(b=np.array([True, False]), u=np.array([1, 255], "u1"), i=np.array([-1, 2], "i4"),
                 w=np.array([1, 2**32 - 1], "u4"), l=np.array([-2**40, 1], "i8"), h=np.array([1.5, -2], "f2"),
                 d=np.array([1e300, 2]))
    out = t(**given)
    for name in "buiwlhd":
        check(out["o" + name].dtype == given[name].dtype and (out["o" + name] == given[name]).all(), name)
    out = t(**{k: v.tolist() for k, v in given.items()})  # as lists
    for name in "buiwlhd":
        check((out["o" + name] == given[name]).all(), name)
    with raises(netc.Error, "whole number"):
        t(**{**given, "i": [1.5, 2]})
    with raises(netc.Error, "'u' must be u8"):
        t(**{**given, "u": [256, 2]})
    n = netc.compile("model number(x: f32[], i: i32[]) { return y = 2 * x, j = i + 1 }", device="cpu")
    for x, i in (3, 4), (3.0, np.int64(4)), (np.float64(3), np.uint8(4)), (np.float32(3), np.int32(4)), (np.float16(3), np.array(4, "i4")):
        out = n(x=x, i=i)
        check(out["y"] == 6 and out["j"] == 5, f"{type(x)}, {type(i)}: {out}")
    with raises(netc.Error, "whole number"):
        n(x=1, i=np.float64(1.5))
    b = netc.compile("model half(x: bf16[3]) { return y = x }", device="cpu")
    y = b(x=[1, 2.5, -3])["y"]
    check(type(y) is netc.Array and y.dtype == "bf16" and y.tolist() == [1, 2.5, -3], repr(y))
    same(np.asarray(y).dtype, np.dtype("f4"))
    f = np.array([1, 3.3, -1e-8, 65519, 0.1, -np.inf, np.nan, 6e-5, 5e-8, 2.0009766], "f4")
    k = netc.compile("model k(x: f16[10], y: bf16[10]) { return a = x, b = y }", device="cpu")
    out = k(f, f)  # rounded, as f32 of files is
    check(out["a"].tobytes()[:12] + out["a"].tobytes()[14:] == f.astype("f2").tobytes()[:12] + f.astype("f2").tobytes()[14:], repr(out["a"]))
    check(np.isnan(out["a"][6]) and np.isnan(np.asarray(out["b"])[6]), "NaN remains")
    fine = list(f[:6]) + list(f[7:])
    same([v for v in out["b"].tolist() if v == v], netc.compile("model k(x: bf16[9]) { return y = x }", device="cpu")([float(v) for v in fine])["y"].tolist())
    with raises(netc.Error, "input 'x': 65520 is too large for f16"):
        k(np.full([10], 65520, "f4"), f)
    with raises(netc.Error, "input 'y': 3.39999995e+38 is too large for bf16"):
        k(f, np.full([10], 3.4e38, "f4"))
    with raises(netc.Error, "input 'x' is f16[10], the tensor given is f64[10]"):
        k(f.astype("f8"), f)
    with raises(netc.Error, "'i' is i32[]", "i64[]"):
        n(x=1, i=np.array(4))  # an array is not a number
    text = "use optim\ndim batch = 2\nmodel half(x: bf16[batch]) {\n    param w: f32[] = 2\n    return y = w * cast(x, f32), loss = mean(w * cast(x, f32))\n}\n" \
           "train half {\n    minimize loss\n    update sgd(lr = 0)\n}\n"
    h, x = netc.compile(text, device="cpu"), np.arange(5, dtype="f4")
    same(h.predict({"x": x + 0.001}, outputs="y")["y"].tolist(), [0.001953125 * 1.0234375, 2, 4, 6, 8])
    same(h.evaluate({"x": x})["loss"], 4.0)
    same(h.train({"x": x[:4]}, shuffle=False)[0]["loss"], 1.0)
    same(x.tolist(), [0, 1, 2, 3, 4])
    with raises(netc.Error, "input 'x': example 1 holds a number that is too large for bf16"):
        h.evaluate({"x": np.array([1, 3.4e38], "f4")})
    try:
        import ml_dtypes
    except ImportError:
        skip("no ml_dtypes: its arrays of bf16 are not tried")
        return
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    same(h(x=x[:2])["y"].tolist(), [0, 2])
    same(h.predict({"x": x}, outputs="y")["y"].tolist(), [0, 2, 4, 6, 8])
    same(h.evaluate({"x": x})["loss"], 4.0)
    same(h.train({"x": x[:4]}, shuffle=False)[0]["loss"], 1.0)
    same(b(x=y)["y"].tolist(), [1, 2.5, -3])  # by DLPack
    same(pickle.loads(pickle.dumps(copy.deepcopy(y))).tolist(), y.tolist())  # as in a pickled state_dict()
    same(b(x=[float("inf"), 3.38e38, 1])["y"].tolist()[0], float("inf"))
    with raises(netc.Error, "3.4e+38 is too large for bf16"):
        b(x=[1, 3.4e38, 1])
    with raises(BufferError):
        memoryview(y)


def test_dlpack_in():
    for versioned in (True, False):
        a = X.copy()
        p = Producer(a, versioned)
        same(m(x=p, y=X)["z"].tolist(), [0, 2, 4, 6])
        same(p.alive, 0)  # the tensor was given back
        same(len(p.asked), 1 if versioned else 2)
        with raises(netc.Error, "strides of (8)"):
            m(x=Producer(np.zeros(8, "f4")[::2], versioned), y=X)
        with raises(netc.Error, "f64[4]"):
            m(x=Producer(np.zeros(4), versioned), y=X)
        with raises(netc.Error, "DLPack type (0, 16 bits"):
            m(x=Producer(np.zeros(4, "i2"), versioned), y=X)
    with raises(netc.Error, "is on cuda:1", "cpu"):
        m(x=Producer(X, device=(2, 1)), y=X)
    with raises(netc.Error, "kind 8"):
        m(x=Producer(X, device=(8, 0)), y=X)
    for device in (None, 3, (1,), ("a", 0)):
        with raises((netc.Error, TypeError)):
            m(x=Producer(X, device=device), y=X)

    class Wrong(Producer):
        def __dlpack__(self, **keywords):
            return 3
    with raises(netc.Error, "no DLPack tensor"):
        m(x=Wrong(X), y=X)

    class Fails(Producer):
        def __dlpack__(self, **keywords):
            raise RuntimeError("gone")
    with raises(RuntimeError, "gone"):
        m(x=Fails(X), y=X)
    with raises(netc.Error, "no DLPack tensor"):
        m(x=Producer(X, major=2), y=X)
    frozen = X.copy()
    frozen.flags.writeable = False
    same(m(x=Producer(frozen), y=X)["s"].tolist(), 6.0)  # read-only is enough


def test_dlpack_out():
    b = netc.compile("model half(x: bf16[3]) { return y = x }", device="cpu")
    plain = netc._netc.make(netc.Array, "f32", (2, 3), np.arange(6, dtype="f4").tobytes())
    same((plain.shape, plain.dtype, plain.__dlpack_device__()), ((2, 3), "f32", (1, 0)))
    taken = np.from_dlpack(plain)
    view = memoryview(plain)
    same((view.shape, view.format), ((2, 3), "f"))
    del plain
    gc.collect()
    same(taken.tolist(), [[0, 1, 2], [3, 4, 5]])  # the memory lives on
    same(view.tolist(), [[0, 1, 2], [3, 4, 5]])
    out = b(x=[1, 2, 3])["y"]
    for keywords, name in ((dict(), b"dltensor"), (dict(max_version=(1, 0)), b"dltensor_versioned"),
                           (dict(max_version=(0, 8)), b"dltensor"), (dict(max_version=(1, 0), copy=True), b"dltensor_versioned")):
        capsule = out.__dlpack__(**keywords)
        get = ctypes.pythonapi.PyCapsule_GetName
        get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
        same(get(capsule), name)
        del capsule  # nobody consumed it
    with raises(BufferError):
        out.__dlpack__(stream=1)
    with raises(BufferError):
        out.__dlpack__(dl_device=(2, 0))
    same(out.tolist(), [1, 2, 3])
    same(float(netc._netc.make(netc.Array, "f32", (), np.float32(2).tobytes())), 2.0)


def test_state():
    same(list(m.state), ["w", "runs"])
    same(m.state.types()["w"], ("f32", (4,)))
    before = int(m.state["runs"])
    m(x=X, y=X)
    same(int(m.state["runs"]), before + 1)
    m.state["w"] = np.array([1, 2, 3, 4], "f4")
    same(m(x=X, y=X)["z"].tolist(), [0, 3, 8, 15])
    saved = m.state_dict()
    m.state.update(w=[0, 0, 0, 0])
    same(m(x=X, y=X)["z"].tolist(), X.tolist())
    m.load_state_dict(saved)
    same(m.state["w"].tolist(), [1, 2, 3, 4])
    with raises(netc.Error, "nothing for runs", "no q"):
        m.load_state_dict({"w": X, "q": X})
    m.load_state_dict({"w": np.ones(4, "f4")}, strict=False)
    with raises(KeyError, "no parameter or state 'v'"):
        m.state["v"]
    with raises(KeyError):
        m.state["v"] = X
    check("v" not in m.state and 3 not in m.state and m.state.get("v") is None)
    with raises(netc.Error, "state 'w' is f32[4]", "f32[3]"):
        m.state["w"] = X[:3]
    with raises(TypeError):
        del m.state["w"]
    with raises(KeyError):
        m.state[3]
    check("w: f32[4]" in repr(m.state))


def test_files(folder="."):
    m.state["w"] = [1, 2, 3, 4]
    m.save("w.safetensors")
    other = netc.compile(ADD, device="cpu", weights="w.safetensors")
    same(other.state["w"].tolist(), [1, 2, 3, 4])
    m.state["w"] = [0, 0, 0, 0]
    m.load("w.safetensors")
    same(m.state["w"].tolist(), [1, 2, 3, 4])
    same(other.adopt(m), 2)
    with raises(netc.Error, "nope.safetensors"):
        m.load("nope.safetensors")
    with raises(netc.Error, "matches no tensor"):
        m.load("w.safetensors", map={"q.*": "w.*"})
    m.save("add.bin")
    again = netc.compile("add.bin", device="cpu")
    same(again(x=X, y=X)["z"].tolist(), [0, 3, 8, 15])
    with raises(netc.Error, "none/w.safetensors"):
        m.save("none/w.safetensors")
    m.state["w"] = np.ones(4, "f4")
    square = netc.compile("model p(x: f32[2]) { param w: f32[2, 2] = 1\n return y = matmul(x, w) }", device="cpu")
    square.state["w"] = np.array([[1, 2], [3, 4]], "f4")
    square.save("square.safetensors")
    square.load("square.safetensors", transpose="w")
    same(square.state["w"].tolist(), [[1, 3], [2, 4]])


def test_words():
    """One name where several can be; Python's words in definitions; states that are not kept."""
    text = ("const on = false\nconst of = 3\ndim n = 2\nmodel a(x: f32[n]) { return y = x }\n"
            "model b() {\n scratch state h: f32[2] = 0\n h <- h + 1\n return y = if on and of == none then 1.0 else h[0]\n}")
    b = netc.compile(text, device="cpu", entries="b", defines={"on": np.True_, "of": None})
    same((list(b.entries), float(b.entry("b")()["y"])), (["init", "b"], 1.0))
    with raises(KeyError, "'h' is a scratch state"):
        b.state["h"]
    sized = "const width = 2\nmodel m(x: f32[width]) { return x }"
    for value, shown in ((8.5, "8.5"), (-3, "-3"), (1e-07, "1e-07"), (None, "None"), (False, "False"), ('"a b"', '"a b"')):
        with raises(netc.Error, f'by defines={{"width": {shown}}}\n'):  # what was given, and nothing behind it
            netc.compile(sized, device="cpu", defines={"width": value})


def test_copies():
    one = netc.compile("model r(x: f32[4]) { param w: f32[4] = 1\n return y = w * x * uniform([4], 0, 1) }", device="cpu")
    one.state["w"] = X
    one(X)
    two = copy.deepcopy(one)  # on parameters of its own, with the draws that are to come
    check((one(X)["y"] == two(X)["y"]).all())
    one.state["w"] = np.zeros(4, "f4")
    same((two.state["w"].tolist(), float(copy.copy(one)(X)["y"].sum())), (X.tolist(), 0))
    part = copy.deepcopy(m.variant(outputs="s"))
    same((list(part(x=X)), part.entry().inputs[0][0]), (["s"], "x"))
    with raises(TypeError, "cannot be pickled", "m.save(PATH)"):
        pickle.dumps(one)
    state = one.state
    one.close()
    check("closed" in one._repr_html_() and "closed" in repr(state))


def test_variant():
    side = netc.compile(CLOUDS, device="cpu")
    logits = side.variant(outputs="logits", defines={"batch": 1})
    same(logits.entry().inputs, [("x", "f32", (1, 2), True)])
    before = logits(x=[[1, 2]])["logits"]
    side.state["fc2.bias"] = [1, 2]
    after = logits(x=[[1, 2]])["logits"]
    check(np.allclose(after - before, [[1, 2]] - 0 * before, atol=1), (before, after))
    side.close()
    same(logits(x=[[1, 2]])["logits"].tolist(), after.tolist())  # it has the state's other end
    with raises(ValueError, "closed"):
        side(x=np.zeros((32, 2), "f4"), label=np.zeros(32, "u1"))
    check("closed" in repr(side))
    side.close()
    like = netc.compile("dim n = 4\nmodel sum_of(x: f32[n], unused: f32[n]) { return s = sum(x) }", device="cpu")
    same(float(like.variant(like={"x": X[:2]})(x=X[:2])["s"]), 1.0)
    same(float(like(x=X, unused=X)["s"]), 6.0)  # what is declared and not needed may be given


def test_looking():
    table = m.inspect()
    same(table.column("entry"), ["add"] * len(table))
    check("add for cpu: 2 kernels" in repr(table) and table[0]["kind"] == "kernel" and "<table>" in table._repr_html_())
    check("NC_BODY" in m.kernel(table[0]["name"]))
    with raises(netc.Error, "no kernel 'q'"):
        m.kernel("q")
    check("model add" in m.emit("ast"))
    with raises(netc.Error):
        m.emit("q")
    p = m.profile(repeats=3, steps=3)
    check(p[0]["seconds"] > 0 and p.data["seconds"] > 0 and p.data["repeats"] == 3 and "name" in repr(p))
    with raises(netc.Error, "no entry"):
        m.profile("q")
    check("add" in m.check())
    check("<pre>" in m._repr_html_())
    check(len(netc.doctor()) > 3 and {"what", "ok", "detail"} == set(netc.doctor()[0]))


def test_tune():
    with open("small.net", "w") as f:
        f.write("model small(x: f32[64, 64]) { return y = exp(x), s = sum(x, axis = 1) }\n")
    small = netc.compile("small.net", device="cpu")
    rows = small.tune(1200)
    check(all(r["kernel"] and r["before"] >= r["after"] > 0 for r in rows) and "kernel" in repr(rows))

    class Enough(Exception):
        pass

    def enough(row):
        raise Enough
    seen = []
    with raises(Enough):
        small.tune(1200, again=True, on_event=lambda row: (seen.append(row), enough(row)))
    same(len(seen), 1)
    with raises(netc.Error, "no kernel 'q'"):
        small.tune(1, kernel="q")
    with raises(netc.Error, "folder q"):
        small.tune(1, file="q/t")


def test_generate():
    text = "dim texts = 2\nmodel next(t: i32[texts, 1] in 0..128) {\n" \
           "    param w: f32[128, 128] = 0\n    return logits = w[t[:, 0]]\n}\n"
    g = netc.compile(text, device="cpu")
    after = np.zeros((128, 128), "f4")  # what follows each character
    for a, b in zip("hello world", "ello world!"):
        after[ord(a), ord(b)] += 1
    after[ord("l")] = 0
    after[ord("l"), ord("d")] = 1
    after[ord("!"), ord("h")] = 1
    g.state["w"] = after

    def greedy(token, n):
        out = []
        for _ in range(n):
            token = int(after[token].argmax())
            out.append(token)
        return out
    same(g.generate([ord("h")], length=9, temperature=0), [greedy(ord("h"), 9)] * 2)  # the batch's texts
    prompts = [[ord("w")], [ord("o"), ord("r")], [ord("!")]]
    same(g.generate(prompts, length=4, temperature=0), [greedy(p[-1], 4) for p in prompts])
    same(g.generate(["w", "or"], tokenizer="bytes", length=3, temperature=0), ["o w", "ld!"])
    drawn = g.generate([ord("o")], length=50, temperature=2.0, seed=3)
    check(drawn == g.generate([ord("o")], length=50, temperature=2.0, seed=3) != g.generate([ord("o")], length=50, seed=4))
    check(all(set(t) <= {ord(" "), ord("r")} for t in g.generate([[ord("o")]] * 3, length=1, top_k=2)))
    seen = []
    same(g.generate(np.array([ord("h")], "i4"), length=9, temperature=0,
                    on_token=lambda row, token: (seen.append((row, token)), row == 0 or len(seen) < 4)[1])[0],
         greedy(ord("h"), 9))
    check((0, ord("e")) in seen and sum(row for row, _ in seen) < 4)

    class Enough(Exception):
        pass

    def enough(row, token):
        raise Enough
    with raises(Enough):
        g.generate([1], length=5, on_token=enough)
    for what in (lambda: g.generate([1], length=1)), g.close:
        with raises(netc.Error, "do it after the call that runs the callback"):
            g.generate([1], length=5, on_token=lambda row, token: what())
    for call, kind, words in [
        (lambda: g.generate("hello"), ValueError, ["tokenizer="]),
        (lambda: g.generate([]), ValueError, ["at least one token"]),
        (lambda: g.generate([[1], []]), ValueError, ["at least one token"]),
        (lambda: g.generate([200]), netc.Error, ["200"]),
        (lambda: g.generate([2**40]), OverflowError, []),
        (lambda: g.generate([1], entry="nxt"), netc.Error, ["nxt"]),
        (lambda: g.generate([1], top_p=3), netc.Error, ["3"]),
        (lambda: netc.Tokenizer("none.json"), netc.Error, ["none.json"]),
    ]:
        with raises(kind, *words):
            call()
    t = netc.Tokenizer("bytes")
    same((t.encode("h\u00e4"), len(t)), ([104, 195, 164], 256))
    check(t.decode([195, 164]) == "\u00e4" and t.to_bytes([255]) == b"\xff" and t.encode(t.decode([255])) == [255])
    with raises(netc.Error, "no token 256"):
        t.decode([1, 256])
    with raises(netc.Error, "no token 256"):
        t.decode(iter([1, 256]))
    same((t.encode(bytearray(b"AB")), t.decode(iter([65, 66])), t.decode(np.array([65, 66], "u2"))), ([65, 66], "AB", "AB"))
    for wrong in 5, [65], None:     # 5: no five zeros
        with raises(TypeError):
            t.encode(wrong)
    for wrong in [65.5], ["A"]:
        with raises(TypeError):
            t.decode(wrong)


def test_stub():
    import ast
    import inspect
    import os
    with open(os.path.join(os.path.dirname(netc.__file__), "__init__.pyi")) as f:
        tree = ast.parse(f.read())

    def parameters(node):
        return [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs if a.arg != "self"]
    stubbed = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            stubbed.add(node.name)
            same(parameters(node), list(inspect.signature(getattr(netc, node.name)).parameters))
        if not isinstance(node, ast.ClassDef):
            continue
        stubbed.add(node.name)
        real = getattr(netc, node.name, None) or getattr(netc._state, node.name)
        for f in node.body:
            if not isinstance(f, ast.FunctionDef):
                continue
            check(hasattr(real, f.name) or f.name == "__buffer__", f"{node.name}.{f.name}")
            if node.name == "Model" and not f.decorator_list and not f.name.startswith("__"):
                same(parameters(f), [p for p in inspect.signature(getattr(real, f.name)).parameters if p != "self"])
        names = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        if node.name == "Model":
            same({n for n in vars(real) if not n.startswith("_")} - names, set())
    same(set(netc.__all__) - stubbed, set())


def test_lifetimes():
    import os

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    text = "model one(x: f32[4]) { param w: f32[4] = 1\n return y = x * w }"
    for i in range(1000):
        one = netc.compile(text, device="cpu")
        one(x=X)
        if i == 200:
            begin, files = resident(), len(os.listdir("/proc/self/fd"))
    sanitized = "asan" in os.environ.get("LD_PRELOAD", "")  # which keeps what was freed
    if sanitized:
        skip("under the sanitizers memory is not measured")
    check(sanitized or resident() - begin < 4 << 20, f"{resident() - begin} bytes more after 800 models")
    same(len(os.listdir("/proc/self/fd")), files)
    entry = one.entry()
    gone = weakref.ref(one)
    del one
    check(gone() is None)  # no cycle: what it holds on its device goes at once
    same(entry(x=X)["y"].tolist(), X.tolist())  # an entry keeps what it needs
    for _ in range(2000):  # calls and failed calls give everything back
        m(x=X, y=X)
        try:
            m(x=X, y=X[:3])
        except netc.Error:
            pass
    begin, blocks = resident(), sys.getallocatedblocks()
    for _ in range(3000):
        m(x=X, y=X)
        try:
            m(x=X, y=X[:3])
        except netc.Error:
            pass
    check(sanitized or resident() - begin < 1 << 20 and sys.getallocatedblocks() - blocks < 500,
          (resident() - begin, sys.getallocatedblocks() - blocks))


run(globals())
