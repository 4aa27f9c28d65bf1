"""Life cycle, text synchronisation, diagnostics and their corrections."""
from check import *
from client import Client, apply, place

GOOD = """use nn
dim batch = 4
model m(x: f32[batch, 3]) {
    y = relu(linear(x, 8) as fc)
    return loss = mean(y)
}
"""


@part
def life():
    c = Client(netc)
    can = c.init["capabilities"]
    check(can["positionEncoding"] == "utf-16" and can["textDocumentSync"]["change"] == 2, can)
    check(c.error("initialize", {})["code"] == -32600, "initialized twice")
    check(c.error("textDocument/none", {})["code"] == -32601, "an unknown method")
    c.tell("$/setTrace", {"value": "off"})  # an unknown notification is nothing
    c.tell("workspace/didChangeConfiguration", {"settings": {}})
    check(c.error("textDocument/hover", {"textDocument": {"uri": "file:///no.net"},
                                         "position": {"line": 0, "character": 0}})["code"] == -32602, "not open")
    c.ask("shutdown", None)
    check(c.error("textDocument/hover", {})["code"] == -32600, "after shutdown")
    c.tell("exit", None)
    check(c.process.wait(1200) == 0, "the exit code")
    c = Client(netc)
    c.tell("exit", None)
    check(c.process.wait(1200) == 1, "exit without shutdown")
    import subprocess
    p = subprocess.Popen([netc, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    body = b'{"jsonrpc":"2.0","id":"a","method":"textDocument/hover","params":{}}'
    out, _ = p.communicate(b"Content-Length: %d\r\n\r\n%s" % (len(body), body), timeout=1200)
    check(b"-32002" in out and b'"id":"a"' in out, "a request before initialize:", out)
    check(p.returncode == 1, "the end of input")


@part
def edits():
    c = Client(netc)
    u = uri(os.path.join(folder, "a b.net"))
    spelt = u.replace(" ", "%20")
    c.open(spelt, GOOD)
    check(c.diagnostics(spelt, 1) == [], "a sound text")
    line, at = place(GOOD, "relu")
    c.change(u, 2, {"range": {"start": {"line": line, "character": at},
                              "end": {"line": line, "character": at + 4}}, "text": "rélú𝛼"})
    found = c.diagnostics(spelt, 2)
    check(found and found[0]["range"]["start"] == {"line": 3, "character": at + 1}, found)
    # Behind a character of two units: the first change, in UTF-16, takes all of the word away.
    c.change(u, 3, {"range": {"start": {"line": 3, "character": at},
                              "end": {"line": 3, "character": at + 6}}, "text": "relo"})
    found = c.diagnostics(spelt, 3)
    check(len(found) == 1 and "did you mean 'relu'" in found[0]["message"], found)
    check(found[0]["range"] == {"start": {"line": 3, "character": at}, "end": {"line": 3, "character": at + 4}}, found)
    actions = c.ask("textDocument/codeAction", {"textDocument": {"uri": spelt}, "range": found[0]["range"],
                                                "context": {"diagnostics": found}})
    check(len(actions) == 1 and actions[0]["title"] == "Write 'relu'", actions)
    check(apply(GOOD.replace("relu", "relo"), actions[0]["edit"]["changes"][spelt]) == GOOD, actions)
    # Several changes in one message, each to the text that the one before left; then all of it.
    c.change(u, 4, {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 6}}, "text": ""},
             {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}, "text": ""})
    found = c.diagnostics(spelt, 4)
    check(found and "rite 'use nn'" in found[0]["message"], found)
    actions = c.ask("textDocument/codeAction", {"textDocument": {"uri": spelt}, "range": found[0]["range"],
                                                "context": {"diagnostics": found}})
    text = GOOD[len("use nn\n"):].replace("relu", "relo")
    check(any(apply(text, a["edit"]["changes"][spelt]).startswith("use nn\ndim") for a in actions), actions)
    c.change(u, 5, {"text": GOOD})
    check(c.diagnostics(spelt, 5) == [], "the whole text")
    c.tell("textDocument/didSave", {"textDocument": {"uri": u}, "text": GOOD + "!"})
    check(len(c.diagnostics(spelt)) == 1, "a saved text is what counts")
    c.tell("textDocument/didClose", {"textDocument": {"uri": u}})
    check(c.diagnostics(spelt) == [], "a closed document has no diagnostics")
    check(c.stop() == 0, "its end")


@part
def bytes_as_positions():
    c = Client(netc, encodings=("utf-8", "utf-16"))
    check(c.init["capabilities"]["positionEncoding"] == "utf-8", c.init)
    u = uri(os.path.join(folder, "b.net"))
    c.open(u, "# 𝛼é\nmodel m(x: f32[2]) { return y = '𝛼é' + x }\n")
    found = c.diagnostics(u, 1)
    check(found and found[0]["range"]["start"]["character"] == 32 and found[0]["range"]["end"]["character"] == 40, found)
    c.stop()


@part
def several():
    c = Client(netc)
    u = uri(os.path.join(folder, "several.net"))
    c.open(u, "model a(x: f32[2]) { return y = zzz(x) }\nmodel b(x: f32[2]) { return y = = }\n"
              "model c(x: f32[2]) { q = ) }\n")
    found = c.diagnostics(u, 1)
    check(len(found) >= 2 and all(f["source"] == "netc" for f in found), found)
    # A chain of calls: the notes are places, in the standard library, too.
    c.change(u, 2, {"text": "use nn\nfn f(x) { return linear(x, 0) }\nmodel a(x: f32[2, 2]) { return y = f(x) }\n"})
    found = c.diagnostics(u, 2)
    related = found[0]["relatedInformation"]
    check(any("called from here" in r["message"] for r in related), found)
    check(all(os.path.exists(r["location"]["uri"][len("file://"):]) for r in related
              if "std-" in r["location"]["uri"]), related)
    c.stop()


@part
def used_files():
    """What a file uses is read as it stands in the editor."""
    inner = write("part.net", "fn twice(x) { return 2 * x }\n")
    write("sub/deep.net", "use \"../part.net\"\nfn four(x) { return twice(twice(x)) }\n")
    text = "use \"sub/deep.net\"\nuse part\nmodel m(x: f32[3]) { return y = twice(x) + four(x) }\n"
    main = write("main.net", text)
    c = Client(netc)
    c.open(uri(main), text)
    check(c.diagnostics(uri(main), 1) == [], "files beside it")
    c.open(uri(inner), "fn thrice(x) { return 3 * x }\n")
    check(c.diagnostics(uri(inner), 1) == [], "a file of functions alone is sound")
    found = c.diagnostics(uri(main), 1)
    check(any("'twice'" in f["message"] for f in found), "an unsaved change is seen", found)
    c.change(uri(inner), 2, {"text": "fn twice(x) { return 2 * = }\n"})
    c.diagnostics(uri(inner), 2)
    found = c.diagnostics(uri(main), 1)
    check(found and found[0]["range"]["start"]["line"] in (0, 1), "a mistake in a used file stands at its use", found)
    check(any(r["location"]["uri"] == uri(inner) for r in found[0]["relatedInformation"]), found)
    c.tell("textDocument/didClose", {"textDocument": {"uri": uri(inner)}})
    check(c.diagnostics(uri(main), 1) == [], "as it is on disk again")
    where = c.at("definition", uri(main), *place(text, "four"))
    check(where["uri"] == uri(os.path.join(folder, "sub/deep.net")) or "deep.net" in where["uri"], where)
    c.stop()


@part
def changed_on_disk():
    """Files that are not open: the client, which was asked to, reports when one changes."""
    text = "use later\nmodel m(x: f32[3]) { return y = twice(x) }\n"
    main = write("watch/main.net", text)
    c = Client(netc, workspace={"didChangeWatchedFiles": {"dynamicRegistration": True}})
    c.open(uri(main), text)
    check("later" in c.diagnostics(uri(main), 1)[0]["message"], "there is no later.net")
    asked = [m for m in c.notes + list(c.answers.values()) if m.get("method") == "client/registerCapability"]
    check(len(asked) == 1 and "id" in asked[0], c.notes, c.answers)
    check(asked[0]["params"]["registrations"][0]["method"] == "workspace/didChangeWatchedFiles", asked)
    later = write("watch/later.net", "fn twice(x) { return 2 * x }\n")
    c.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(later), "type": 1}]})
    check(c.diagnostics(uri(main), 1) == [], "it was created")
    write("watch/later.net", "fn thrice(x) { return 3 * x }\n")
    c.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(later), "type": 2}]})
    check("'twice'" in c.diagnostics(uri(main), 1)[0]["message"], "it was changed")
    os.remove(later)
    os.mkfifo(later)  # nobody writes into it: no reason to wait
    c.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(later), "type": 2}]})
    check("cannot read" in c.diagnostics(uri(main), 1)[0]["message"], "it is a pipe")
    os.remove(later)
    c.stop()
    c = Client(netc)
    c.open(uri(main), text)
    c.diagnostics(uri(main), 1)
    check(not [m for m in c.notes if m["method"] == "client/registerCapability"], "a client that cannot")
    c.stop()


@part
def saved():
    """What only compiling tells is said when a text is saved, until it changes."""
    text = """extern fn doubled(x) from "own.cu" {
    out y: f32[shape(x)]
    launch doubled(x, y) grid = 1, block = 32
    reference { return x * 2 }
}
model m(x: f32[40]) {
    param p: f32[40] = 1
    return loss = sum(doubled(x * p))
}
fn sgd(p, g) { p <- p - 0.1 * g }
train m {
    minimize loss
    update sgd
}
"""
    write("own.cu", "__global__ void doubled(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n")
    path = write("own.net", text)
    c = Client(netc)
    c.open(uri(path), text)
    check(c.diagnostics(uri(path), 1) == [], "nothing as one types")
    c.tell("textDocument/didSave", {"textDocument": {"uri": uri(path)}})
    found = c.diagnostics(uri(path), 1)
    check(len(found) == 1 and "doubled has no gradient" in found[0]["message"], found)
    check(found[0]["range"]["start"] == dict(zip(("line", "character"), place(text, "doubled(x * p)"))), found)
    check(found[0]["range"]["end"]["character"] == found[0]["range"]["start"]["character"] + 7, found)
    # The watcher of files reports the saved file: it is not compiled again. Another changes meanwhile: it is.
    beside = write("beside_own.net", "fn f(x) { return x }\n")
    for changed in path, beside:
        c.tell("textDocument/didSave", {"textDocument": {"uri": uri(path)}})
        c.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri(path)}})
        c.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(changed), "type": 2}]})
    while True:
        again = c.diagnostics(uri(path), 1)
        if again:
            break
    check(again == found, again)
    right = text.replace("    reference { return x * 2 }\n}", "    reference { return x * 2 }\n} grad(dy) { return dy * 2 }")
    c.change(uri(path), 2, {"text": right})
    check(c.diagnostics(uri(path), 2) == [], "changed")
    r = c.at("hover", uri(path), *place(right, "doubled(x * p)"))
    check("extern fn doubled(x)" in r["contents"]["value"], r)
    # A file without a model has nothing to compile; that is no mistake.
    part = write("alone.net", "fn f(x) { return x }\n")
    c.open(uri(part), "fn f(x) { return x }\n")
    c.diagnostics(uri(part), 1)
    c.tell("textDocument/didSave", {"textDocument": {"uri": uri(part)}})
    c.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri(part)}})
    check(not [n for n in c.notes if n.get("params", {}).get("uri") == uri(part)], c.notes)
    c.stop()


@part
def every_file():
    """Samples and the standard library have no mistakes here either."""
    c = Client(netc)
    import glob
    for f in glob.glob(os.path.join(root, "samples/*/*.net")) + glob.glob(os.path.join(root, "frontend/std/*.net")):
        c.open(uri(f), open(f).read())
        found = c.diagnostics(uri(f), 1)
        check(found == [], f, found)
        c.tell("textDocument/didClose", {"textDocument": {"uri": uri(f)}})
    c.stop()


@part
def definitions():
    c = Client(netc, options={"defines": {"batch": 16, "wide": True, "elsewhere": 1}})
    u = uri(os.path.join(folder, "d.net"))
    text = "const wide = false\ndim batch = 4\nmodel m(x: f32[batch, 3]) {\n    y = if wide then x + x else x\n    return y\n}\n"
    c.open(u, text)
    check(c.diagnostics(u, 1) == [], "a definition for another file")
    h = c.at("hover", u, *place(text, "y ="))["contents"]["value"]
    check("f32[batch=16, 3]" in h, h)
    c.stop()


@part
def cancelled():
    c = Client(netc)
    u = uri(os.path.join(root, "samples/llama/llama.net"))
    c.open(u, open(u[7:]).read())
    id = c.begin("textDocument/documentSymbol", {"textDocument": {"uri": u}})
    c.tell("$/cancelRequest", {"id": id})
    c.tell("$/cancelRequest", {"id": "no such"})
    m = c.wait(id)
    check("result" in m or m["error"]["code"] == -32800, m)
    check(len(c.ask("textDocument/documentSymbol", {"textDocument": {"uri": u}})) > 5, "the next is answered")
    c.stop()


finish()
