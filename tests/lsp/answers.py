"""Hover, hints, completion, signatures and formatting."""
import glob, re, shutil, subprocess, time
from check import *
from client import Client, apply, place

TEXT = """use nn
const hidden = 8  # units
dim batch = 4

# Twice
# over.
fn twice(x, f = relu) { return f(f(x)) }

model net(image: f32[batch, 3]) {
    h = twice(linear(image, hidden) as fc)
    big = matmul(h, transpose(h))
    return loss = mean(softmax(big)), h
}
"""
write("beside.net", "fn unit(x) { return x }\n")
main = write("hover.net", TEXT)
u = uri(main)
c = Client(netc, options={"target": "sm_90"})
c.open(u, TEXT)
c.diagnostics(u, 1)


def hover(what, nth=0, into=0, text=TEXT):
    r = c.at("hover", u, *place(text, what, nth, into))
    return r["contents"]["value"] if r else ""


@part
def hovers():
    for what, words in [("h = twice", ["h: f32[batch=4, 8]", "local of `net`"]),
                        ("hidden = 8", ["const hidden = 8", "units"]), ("hidden)", ["const hidden = 8", "units"]),
                        ("batch, 3", ["dim batch = 4"]), ("twice(linear", ["fn twice(x, f = relu)", "Twice\nover."]),
                        ("linear(", ["fn linear(x, width, use_bias = true", "std/nn.net"]),
                        ("transpose", ["transpose(x", "built in"]), ("image, h", ["image: f32[batch=4, 3]"]),
                        ("x, f = relu", ["x: f32[batch=4, 8]", "argument of `twice`"])]:
        h = hover(what)
        check(all(w in h for w in words), what, h)
    check(hover("return") == "", "a keyword")
    check("fn relu(x)" in hover("relu)") and "----" not in hover("relu)"),
          "the heading of a part of a file describes nothing", hover("relu)"))
    # What the kernels are: compiled in the background, so perhaps with the second question.
    for _ in range(6000):
        h = hover("big =")
        if "being compiled" not in h:
            break
        time.sleep(0.2)
    check("This line, on sm_90" in h and "floor" in h and "- `" in h, h)
    h = hover("h = twice")
    check("stored: " in h, "why it is stored between kernels", h)
    # The text changes while they are asked for: the answer is of the new text.
    id = c.begin("textDocument/hover", {"textDocument": {"uri": u}, "position": dict(zip(("line", "character"), place(TEXT, "big =")))})
    c.change(u, 2, {"text": TEXT.replace("dim batch = 4", "dim batch = 6")})
    r = c.wait(id)
    check("result" in r, r)
    check("batch=6" in hover("h = twice"), "the new dimension")
    c.change(u, 3, {"text": TEXT})


@part
def hints():
    r = c.ask("textDocument/inlayHint", {"textDocument": {"uri": u}, "range": {
        "start": {"line": 0, "character": 0}, "end": {"line": 100, "character": 0}}})
    found = {(x["position"]["line"], x["label"]) for x in r}
    check((place(TEXT, "h = twice")[0], ": f32[batch=4, 8]") in found, found)
    check((place(TEXT, "big =")[0], ": f32[batch=4, batch=4]") in found, found)
    one = c.ask("textDocument/inlayHint", {"textDocument": {"uri": u}, "range": {
        "start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 80}}})
    check(len(one) == 1, one)


@part
def standard_files():
    """Written where kernels are cached; a folder that others can write to would not be used for these."""
    home = os.path.join(folder, "home")
    os.mkdir(home)
    env = {"HOME": home, "XDG_CACHE_HOME": "relative"}
    d = Client(netc, env=env, umask=0o002)
    d.open(u, TEXT)
    at = d.at("definition", u, *place(TEXT, "linear"))
    check(at and at["uri"].startswith("file://" + home + "/.cache/netc/std-"), at)
    doctor = subprocess.run([netc, "doctor"], env=dict(os.environ, **env), capture_output=True, text=True).stdout
    check(re.search("^yes compile cache +" + re.escape(home + "/.cache/netc") + "$", doctor, re.M), doctor)
    check(d.stop() == 0, "its end")
    d = Client(netc, env={"HOME": "", "XDG_CACHE_HOME": ""})
    d.open(u, TEXT)
    check(d.at("definition", u, *place(TEXT, "linear")) is None, "there is no place for it")
    check(any("XDG_CACHE_HOME" in m["params"].get("message", "") for m in d.notes), "which is said", d.notes)
    d.stop()


version = 10


def complete(text, mark="|"):
    """What is offered at the mark in a text."""
    global version
    version += 1
    line, at = place(text, mark)
    c.change(u, version, {"text": text.replace(mark, "", 1)})
    return {x["label"]: x for x in c.at("completion", u, line, at)}


@part
def completions():
    got = complete(TEXT.replace("linear(image, hidden)", "lin|"))
    check({"linear", "hidden", "batch", "twice", "image", "sum", "for", "nn"} <= set(got), sorted(got))
    check(got["linear"]["kind"] == 3 and "fn linear(" in got["linear"]["detail"], got["linear"])
    got = complete(TEXT.replace("hidden) as fc", "| as fc"))
    check("use_bias =" in got and got["use_bias ="]["insertText"] == "use_bias = ", sorted(got))
    got = complete(TEXT.replace("linear(image, hidden) as fc", "nn.|"))
    check("linear" in got and "hidden" not in got, sorted(got))
    got = complete(TEXT.replace("f32[batch, 3]", "|"))
    check("f32" in got and "bf16" in got and "linear" not in got, sorted(got))
    got = complete(TEXT.replace("use nn", "use |"))
    check({"nn", "optim", "beside"} <= set(got) and "hover" not in got and "linear" not in got, sorted(got))
    write("parts/deep/one.net", "")
    write("parts/two.net", "")
    for typed, offered in [('"', {"beside.net", "parts/"}), ('"parts/', {"two.net", "deep/"}), ('"parts/deep/o', {"one.net"}),
                           ("'parts/", {"two.net"}), ('"../', {os.path.basename(folder) + "/"}), ('"none/', set())]:
        got = complete(TEXT.replace("use nn", "use " + typed + "|"))
        check(offered <= set(got) and not {"nn", "linear", "hover.net"} & set(got), typed, sorted(got))
        got = complete(TEXT.replace("use nn", "use " + typed + "|" + typed[0]))
        check(offered <= set(got) and not {"nn", "linear", "hover.net"} & set(got), typed, sorted(got))
    check(complete(TEXT.replace("use nn", 'use "parts/two.net" |')).keys() & {"two.net", "deep/"} == set(), "behind the path")
    check(complete(TEXT.replace("# Twice", "# Twi|")) == {}, "in a comment")
    got = complete(TEXT.replace("mean(softmax(big))", "mean(h, axis = 0) + wte|"))
    check("big" in got and "h" in got, sorted(got))
    got = complete(TEXT.replace("    return loss", "    z = fc.|\n    return loss"))
    check(isinstance(got, dict), got)
    got = complete("|")
    check({"model", "fn", "use", "train", "const"} <= set(got), sorted(got))


def signature(text, mark="|"):
    global version
    version += 1
    line, at = place(text, mark)
    c.change(u, version, {"text": text.replace(mark, "", 1)})
    r = c.at("signatureHelp", u, line, at)
    return r and (r["signatures"][0]["label"], r["activeParameter"])


@part
def signatures():
    for text, label, active in [("twice(|", "twice(x, f = relu)", 0), ("twice(h, |", "twice(x, f = relu)", 1),
                                ("twice(f = |", "twice(x, f = relu)", 1), ("twice((h + h[0, |", "twice(x, f = relu)", 0),
                                ("sum(h, axis = |", "sum(x, axis = …, keep = …)", 1), ("twice(sum(h), |", "twice(x, f = relu)", 1)]:
        got = signature(TEXT.replace("matmul(h, transpose(h))", text))
        check(got == (label, active), text, got)
    check(signature(TEXT.replace("fn twice(x, f = relu)", "fn twice(x, |")) is None, "in a head")
    check(signature(TEXT.replace("matmul(h, transpose(h))", "(h|)")) is None, "in no call")


@part
def formatting():
    def format(text, n):
        c.change(u, n, {"text": text})
        return c.ask("textDocument/formatting", {"textDocument": {"uri": u}, "options": {"tabSize": 4, "insertSpaces": True}})
    ugly = TEXT.replace("h = twice", "h=twice").replace("    big", "  big")
    edits = format(ugly, 1000)
    check(len(edits) == 1 and apply(ugly, edits) == TEXT, edits)
    check(edits[0]["range"]["start"]["line"] == 9 and edits[0]["range"]["end"]["line"] == 11, "only what changes", edits)
    check(format(TEXT, 1001) == [], "nothing to do")
    check(c.error("textDocument/formatting", {"textDocument": {"uri": u}, "options": {}}) == {}, "asked again")
    check(format(TEXT.replace("\n", "\r\n"), 1002) == [], "lines that end with \\r\\n stay so")
    edits = format(ugly.replace("\n", "\r\n"), 1003)
    check(len(edits) == 1 and edits[0]["newText"].count("\r\n") == 2 == edits[0]["newText"].count("\n"), edits)
    c.change(u, 1004, {"text": TEXT + ")"})
    e = c.error("textDocument/formatting", {"textDocument": {"uri": u}, "options": {}})
    check(e.get("code") == -32803 and "closes nothing" in e["message"], e)
    # Every file there is: formatted twice is formatted once, and it means the same.
    for d in ("samples", "frontend/std", "tests/net"):
        shutil.copytree(os.path.join(root, d), os.path.join(folder, "all", d))
    files = [f for d in ("samples/*", "frontend/std", "tests/net/*") for f in glob.glob(os.path.join(folder, "all", d, "*.net"))]
    n, meant = 1005, 0
    for f in sorted(files):
        try:
            text = open(f).read()
        except UnicodeDecodeError:
            continue
        n += 2
        loose = text.replace(" = ", "=").replace("    ", "  ") if '"' not in text else text
        try:
            once = apply(loose, format(loose, n)) if loose.isascii() else None
        except RuntimeError:
            continue  # a test of syntax errors
        if once is None:
            continue
        check(format(once, n + 1) == [], "twice is not once:", f)
        if "/tests/" in f and n % 7:
            continue  # a few of them by meaning: compiling takes its time
        dumps = []
        for t in (text, once):
            with open(f, "w") as out:
                out.write(t)
            r = subprocess.run([netc, f, "--emit", "ir" if "/samples/mnist" in f else "ast"], capture_output=True)
            dumps.append((r.returncode, re.sub(rb"\.net:\d+", b"", r.stdout)))
        check(dumps[0] == dumps[1], "it means something else:", f)
        meant += 1
    check(meant > 25, meant)


check(c.stop() == 0, "its end")
finish()
