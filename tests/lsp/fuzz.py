"""Random edits and questions, sense and nonsense; the server's text is compared with our own.
By hand: python3 tests/lsp/fuzz.py NETC ROOT SEED EDITS"""
import glob, os, random, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Client

WORDS = """fn model train use const dim setting param state loop for if else then in as reuse return emit tap assert minimize
update over carry while with grad extern out launch reference cpu from cuda x y h i relu linear nn optim batch shape sum mean matmul
f32 u8 none training step ( ) [ ] { } , : = <- .. ... . + - * / // ** == < # @{ -> " ' 0 1 -1 1.5 1e-3 0..4 true""".split()
PIECES = ["\n", "\r\n", " ", "    ", "\t", "é", "𝛼𝛽", "\u2028", "\x01", "# ", "\ufeff", "0" * 40, "(" * 30, "[[", "}}", "x = x\n",
          "for i in 0..1000 { x = x + i }\n", "fn f(x) { return f(x) }\n", "use \"nowhere.net\"\n", "use nn\n", "\"h.{i}\""]
ASKED = ["completion", "signatureHelp", "definition", "references", "documentHighlight", "prepareRename"]


def units(text):
    return len(text.encode("utf-16-le")) // 2


class Model:
    """The text as the protocol means it."""
    def __init__(self, text):
        self.text = text

    def position(self, at):
        begin = self.text.rfind("\n", 0, at) + 1
        return {"line": self.text.count("\n", 0, at), "character": units(self.text[begin:at])}

    def whole(self, at):  # not between the two characters that end a line
        return at - 1 if 0 < at < len(self.text) and self.text[at - 1] == "\r" and self.text[at] == "\n" else at

    def edit(self, begin, end, new):
        change = {"range": {"start": self.position(begin), "end": self.position(end)}, "text": new}
        self.text = self.text[:begin] + new + self.text[end:]
        return change


def random_change(r, m, samples):
    n = len(m.text)
    begin = m.whole(r.randint(0, n))
    kind = r.random()
    if kind < 0.002 or n > 6000:
        m.text = r.choice(samples)
        return {"text": m.text}
    if kind < 0.35:
        return m.edit(begin, begin, r.choice(WORDS) + r.choice(["", " ", "("]))
    if kind < 0.45:
        return m.edit(begin, begin, r.choice(PIECES))
    if kind < 0.55:
        return m.edit(begin, begin, chr(r.choice([r.randint(32, 126), r.randint(1, 31), r.randint(128, 0xd7ff), r.randint(0x10000, 0x10ffff)])))
    end = m.whole(min(n, begin + r.choice([1, 1, 2, 5, 20, 200 if kind > 0.99 else 3])))
    if kind < 0.9:
        return m.edit(begin, end, "" if kind < 0.8 else r.choice(WORDS))
    copy = m.text[begin:end]
    at = m.whole(r.randint(0, n))
    return m.edit(at, at, copy)


def nonsense(r, m):
    """A change that the protocol does not know; the text stays, or both know what it becomes."""
    kind = r.randint(0, 5)
    bad = {"line": r.choice([-1, 1.5, "x", None, 10**30]), "character": 0}
    if kind == 0:
        return {"range": {"start": bad, "end": bad}, "text": "never"}
    if kind == 1:
        return {"range": {"start": {"line": 0}}, "text": "never"}
    if kind == 2:
        return {"range": 7, "text": "never"}
    if kind == 3:
        return {"text": 9}
    if kind == 4:  # far outside: the end of the text
        m.text += "\n"
        return {"range": {"start": {"line": 10**9, "character": 10**9}, "end": {"line": 10**9, "character": 3}}, "text": "\n"}
    begin = m.whole(r.randint(0, len(m.text)))
    end = m.whole(r.randint(begin, len(m.text)))
    if m.whole(begin) != begin:
        return {"text": 9}
    c = m.edit(begin, end, "# ")
    c["range"] = {"start": c["range"]["end"], "end": c["range"]["start"]}  # the wrong way round
    return c


def rss(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def fuzz(netc, root, seed, edits, burst=40, report=False):
    """Failures as texts, and what was done."""
    r = random.Random(seed)
    files = sorted(glob.glob(os.path.join(root, "samples/*/*.net")) + glob.glob(os.path.join(root, "tests/net/*/*.net")))
    samples = []
    for f in files:
        with open(f, "rb") as file:
            text = file.read()
        if len(text) < 3000 and b"\0" not in text:
            samples.append(text.decode("utf-8", "replace"))
    c = Client(netc)
    uris = ["file:///nowhere/a.net", "file:///nowhere/b%20c.net", "untitled:Untitled-1"]
    models = {u: Model(r.choice(samples)) for u in uris}
    for u in uris:
        c.open(u, models[u].text)
    done = asked = analysed = 0
    early, begin, said, failures = None, time.time(), time.time(), []
    version = 1
    while done < edits and not failures:
        u = r.choice(uris)
        m = models[u]
        if not r.randint(0, 7):
            m.text = r.choice(samples)
            version += 1
            c.change(u, version, {"text": m.text})
        for _ in range(r.randint(1, burst)):
            version += 1
            n = r.choice([1, 1, 1, 2, 5])
            changes = [random_change(r, m, samples) if r.random() < 0.97 else nonsense(r, m) for _ in range(n)]
            c.change(u, version if r.random() < 0.99 else version - 5, *changes)
            done += n
        got = c.ask("netc/text", {"textDocument": {"uri": u}})["text"]
        if got != m.text:
            failures.append(f"the server has another text than the client: {got!r} {m.text!r}")
        if r.random() < 0.05:
            c.tell("textDocument/didClose", {"textDocument": {"uri": u}})
            c.tell("textDocument/didChange", {"textDocument": {"uri": u, "version": 1}, "contentChanges": [{"text": "lost"}]})
            c.open(u, m.text)
        position = m.position(r.randint(0, len(m.text))) if r.random() < 0.95 else {"line": 10**6, "character": 5}
        what = {"textDocument": {"uri": u}, "position": position}
        for method in [r.choice(ASKED), "documentSymbol"] + (["hover"] if r.random() < 0.03 else []):
            answer = c.wait(c.begin("textDocument/" + method, what))
            asked += 1
            if "error" in answer and method != "prepareRename":
                failures.append(f"{method}: {answer}")
        if r.random() < 0.1:
            c.wait(c.begin("textDocument/rename", dict(what, newName=r.choice(WORDS + ["zz"]))))
            c.wait(c.begin("textDocument/formatting", {"textDocument": {"uri": u}}))
            c.wait(c.begin("textDocument/inlayHint", {"textDocument": {"uri": u}, "range": {"start": {"line": 0, "character": 0}, "end": position}}))
        for note in c.notes:
            p = note["params"]
            analysed += note["method"].endswith("publishDiagnostics")
            if any("the analysis process ended" in d["message"] for d in p.get("diagnostics", [])):
                failures.append(f"an analysis crashed, of: {m.text!r}")
        c.notes.clear()
        if early is None and done > edits / 5:
            early = rss(c.process.pid)
        if report and time.time() - said > 30:
            said = time.time()
            print(f"{done} edits, {analysed} analyses, {asked} questions, {said - begin:.0f} s, {rss(c.process.pid) >> 10} kB", flush=True)
    late = rss(c.process.pid)
    if c.stop() != 0:
        failures.append(f"exit code {c.process.returncode}")
    return failures, {"edits": done, "analyses": analysed, "questions": asked, "seconds": round(time.time() - begin, 1),
                      "early": early, "late": late}


if __name__ == "__main__":
    failures, what = fuzz(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), report=True)
    print(what, *failures, sep="\n")
    sys.exit(bool(failures))
