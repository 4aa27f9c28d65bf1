"""Definitions, references, symbols and renaming."""
import re
from check import *
from client import Client, apply, place

TEXT = """# A file of its own.
use nn
use layers

const hidden = 8  # units
dim batch = 4
setting rate = 0.1

# Twice over.
fn twice(x, f) {
    for i in 0..2 { x = f(x, width = hidden) as h[i] }
    return x
}

fn own(x) {
    y = x * 2
    return y
} grad(dy) { return dy * 2 }

model net(image: f32[batch, hidden]) {
    h = twice(own(image), layers.stack)
    whole = sum(h)
    return loss = mean(whole), logits = h, whole
}

model other(image: f32[batch, hidden]) { return net(image).loss }

train net {
    minimize loss
    update sgd(lr = rate)
}
"""
LAYERS = """use nn
fn stack(x, width) {
    param gain: f32[width] = 1
    hidden = linear(x, width) * gain
    return relu(hidden)
}
"""
TEXT = TEXT.replace("use layers\n", "use layers\nuse optim\n")
write("layers.net", LAYERS)
main = write("net.net", TEXT)
u, ul = uri(main), uri(os.path.join(folder, "layers.net"))
c = Client(netc)
c.open(u, TEXT)
check(c.diagnostics(u, 1) == [], "the text is sound")


def line(l):
    return l["range"]["start"]["line"]


def rename(what, to, nth=0, at=u, text=TEXT):
    return c.at("rename", at, *place(text, what, nth), newName=to)


def refused(what, to, words, nth=0):
    try:
        check(False, "renamed", what, to, rename(what, to, nth))
    except RuntimeError as e:
        check(words in str(e), str(e), "not", words)


def line_of(what, nth=0):
    return place(TEXT, what, nth)[0]


@part
def definitions():
    for what, nth, where in [("hidden)", 0, "const hidden"), ("rate)", 0, "setting rate"), ("own(image", 0, "fn own"),
                             ("loss\n", 0, "return loss"), ("net {", 0, "model net"), ("x * 2", 0, "fn own"),
                             ("i]", 0, "for i"), ("dy * 2", 0, "grad(dy"), ("whole), log", 0, "whole ="),
                             ("batch, hidden]", 0, "dim batch"), ("net(image).loss", 0, "model net")]:
        r = c.at("definition", u, *place(TEXT, what, nth))
        check(r and r["uri"] == u and line(r) == line_of(where), what, r)
    r = c.at("definition", u, *place(TEXT, "stack)"))
    check(r and r["uri"] == ul and line(r) == 1, "in a used file", r)
    for what, into in [("sgd", 0), ("optim", 0)]:
        r = c.at("definition", u, *place(TEXT, what, 0, into))
        text = open(r["uri"][len("file://"):]).read()
        check("optim.net" in r["uri"] and "std-" in r["uri"], "in the standard library", r)
        check(what == "optim" or text.split("\n")[line(r)].startswith("fn sgd("), r)
    r = c.at("definition", u, *place(TEXT, "layers\n"))
    check(r["uri"] == ul, "of `use layers`", r)
    check(c.at("definition", u, *place(TEXT, "sum(h")) is None, "of a built-in")
    # A file of the standard library, opened where it was led to, is no mistake.
    std = c.at("definition", u, *place(TEXT, "sgd"))["uri"]
    c.open(std, open(std[len("file://"):]).read())
    check(c.diagnostics(std, 1) == [], "the standard library has no mistakes")
    text = open(std[len("file://"):]).read()
    r = c.at("hover", std, *place(text, "sgd("))
    check("fn sgd(" in r["contents"]["value"], r)
    try:
        c.at("rename", std, *place(text, "sgd("), newName="mine")
        check(False, "renamed in the standard library")
    except RuntimeError as e:
        check("standard library" in str(e), e)
    c.tell("textDocument/didClose", {"textDocument": {"uri": std}})


@part
def references():
    def lines(what, declaration=True, nth=0):
        r = c.at("references", u, *place(TEXT, what, nth), context={"includeDeclaration": declaration})
        return sorted((x["uri"] == u, line(x)) for x in r)
    check(len(lines("hidden = 8")) == 4 and len(lines("hidden = 8", False)) == 3, lines("hidden = 8"))
    check((False, 3) not in lines("hidden = 8"), "a variable of another file's function is another")
    check(lines("loss\n") == [(True, line_of(w)) for w in ("return loss", "model other", "minimize loss")], lines("loss\n"))
    check(len(lines("twice(x")) == 2, lines("twice(x"))
    defined = line(c.at("definition", u, *place(TEXT, "sgd")))
    check(lines("sgd(") == [(False, defined), (True, line_of("update sgd"))], lines("sgd("))
    r = c.at("documentHighlight", u, *place(TEXT, "x = f"))
    check([x["kind"] for x in r].count(3) == 2 and len(r) == 4, r)


@part
def symbols():
    r = c.ask("textDocument/documentSymbol", {"textDocument": {"uri": u}})
    check([x["name"] for x in r] == ["hidden", "batch", "rate", "twice", "own", "net", "other", "net"], r)
    net = r[5]
    check([x["name"] for x in net["children"]] == ["loss", "logits", "whole"], net)
    check(all(x["range"]["start"]["line"] <= x["selectionRange"]["start"]["line"] for x in r), r)


@part
def renaming():
    copy = "file://" + folder + "/other.net"
    for what in ["hidden = 8", "x, f", "own(x)", "rate = 0.1", "dy)", "whole = sum", "loss = mean", "i in", "batch = 4"]:
        old = re.match(r"\w+", what)[0]
        text = apply(TEXT, rename(what, "zz")["changes"][u])
        c.open(copy, text)
        check(c.diagnostics(copy, 1) == [] and text.count("zz") > 1, what, text)
        again = c.at("rename", copy, *place(text, "zz"), newName=old)["changes"][copy]
        # Back again; a result that had a variable's name has it written out.
        check(re.sub(r"\bwhole = whole\b", "whole", apply(text, again)) == TEXT, what, apply(text, again))
        c.tell("textDocument/didClose", {"textDocument": {"uri": copy}})
    text = apply(TEXT, rename("whole = sum", "lot")["changes"][u])
    check("mean(lot), logits = h, whole = lot" in text, "a result keeps its name", text)
    edits = rename("stack)", "tower")["changes"]
    check(set(edits) == {u, ul} and "fn tower(x" in apply(LAYERS, edits[ul]), edits)
    r = c.at("prepareRename", u, *place(TEXT, "hidden = 8"))
    check(r["placeholder"] == "hidden", r)


@part
def refusals():
    refused("hidden = 8", "batch", "there is a dim 'batch' already")
    refused("hidden = 8", "relu", "there is a fn 'relu' already")
    refused("hidden = 8", "sum", "'sum' is built in")
    refused("hidden = 8", "for", "'for' is a keyword")
    refused("hidden = 8", "f32", "'f32' is a type")
    refused("hidden = 8", "8x", "is not a name")
    refused("hidden = 8", "y", "which would hide it")
    refused("y = x", "x", "there is an argument 'x' already")
    refused("sgd", "mine", "'sgd' belongs to the standard library")
    refused("sum(h", "mine", "only a name that a file defines")
    refused("h = twice", "layer", "give it its name first")


check(c.stop() == 0, "its end")
finish()
