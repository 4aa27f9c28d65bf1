"""Clients that send nonsense, random edits from one seed, and memory."""
import json, time
from check import *
from client import Client, place
from fuzz import fuzz, rss

GOOD = "model m(x: f32[2]) {\n    y = x + x\n    return y\n}\n"
u = "file:///nowhere/n.net"


def message(body):
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


@part
def wire():
    c = Client(netc)
    c.open(u, GOOD)

    def bad(data, code, words=""):
        c.raw(data)
        m = c.wait(None)
        check(m["error"]["code"] == code and words in m["error"]["message"], data[:60], m)
    bad(message(b"{"), -32700)
    bad(message(b""), -32700)
    bad(message(b"\xff\xfe{}"), -32700)
    bad(message(b'{"a":"\\u00g0"}'), -32700)
    bad(message(b"[" * 100000), -32700, "too deeply")
    bad(message(b"[]"), -32600)
    bad(message(b"7"), -32600)
    bad(message(b'{"jsonrpc":"2.0","id":{},"method":"shutdown"}'), -32600)
    bad(message(b'{"jsonrpc":"2.0","method":7}'), -32600)
    bad(b"Content-Length: x\r\n\r\n", -32700, "no number")
    bad(b"Content-Length: -5\r\n\r\n", -32700, "no number")
    bad(b"Content-Length: 99999999999999999\r\n\r\n", -32700, "impossible")
    bad(b"Content-Length: 99999999999999999999999999\r\n\r\n", -32700)
    bad(b"Content-Type: text\r\n\r\n", -32700, "without Content-Length")
    bad(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", -32700)
    big = b'{"jsonrpc":"2.0","method":"' + b"x" * (65 << 20) + b'"}'
    bad(message(big), -32700, "64 MiB")
    # A header of its own kind, in pieces, and what comes behind all that.
    body = json.dumps({"jsonrpc": "2.0", "id": "late", "method": "netc/text", "params": {"textDocument": {"uri": u}}}).encode()
    whole = b"content-length:  %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" % len(body) + body
    for i in range(0, len(whole), 7):
        c.raw(whole[i:i + 7])
        time.sleep(0.001)
    check(c.wait("late")["result"]["text"] == GOOD, "nothing is lost")
    check(c.stop() == 0, "its end")


@part
def odd_characters():
    """NUL and halves of characters, which editors can hold, keep their places."""
    c = Client(netc)
    c.open(u, "# \0\ud83d\nmodel m(x: f32[4]) { return y = x }\n")
    check(c.diagnostics(u, 1) == [], "in a comment")
    c.change(u, 2, {"range": {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 4}}, "text": "!\ude00\ud83d\ud83d"})
    text = c.ask("netc/text", {"textDocument": {"uri": u}})["text"]
    check(text.startswith("# \ufffd!\ufffd\ufffd\ufffd\nmodel"), repr(text))
    c.change(u, 3, {"text": "model m(x: f32[4]) {\0 return y = x }"})
    found = c.diagnostics(u, 3)
    check(len(found) == 1 and found[0]["range"]["start"]["character"] == 20, found)
    c.stop()


@part
def parameters():
    c = Client(netc)
    c.open(u, GOOD)
    methods = ["codeAction", "hover", "inlayHint", "definition", "references", "documentHighlight", "documentSymbol",
               "prepareRename", "rename", "completion", "signatureHelp", "formatting"]
    for method in methods:
        for params in [None, 7, [], {}, {"textDocument": 7}, {"textDocument": {"uri": 7}}, {"textDocument": {"uri": "file:///other.net"}}]:
            check(c.error("textDocument/" + method, params).get("code") == -32602, method, params)
        for p in [None, 7, {"line": -1, "character": 0}, {"line": 0}, {"line": "0", "character": 0}, {"line": 1.5, "character": 0}]:
            if method in ("documentSymbol", "formatting"):
                continue
            params = {"textDocument": {"uri": u}, "position": p, "range": {"start": p, "end": p}, "newName": "z"}
            check(c.error("textDocument/" + method, params).get("code") == -32602, method, p)
        far = {"line": 10**12, "character": 10**12}
        m = c.wait(c.begin("textDocument/" + method, {"textDocument": {"uri": u}, "position": far, "range": {"start": far, "end": far}, "newName": "z"}))
        check("result" in m or m["error"]["code"] == -32803, method, m)
    # Documents that are strange.
    for uri in ["", "file://", "file:///%00", "file:///%zz", "x", "untitled:new", "git:/a/b.net?ref=1", "file://host/share/c.net",
                "file:///a%25b%2Fc.net", "vscode-notebook-cell:/a#b", "file:///" + "d" * 5000]:
        c.open(uri, GOOD)
        m = c.wait(c.begin("netc/text", {"textDocument": {"uri": uri}}))
        check(m.get("result", {}).get("text") == GOOD or m["error"]["code"] == -32602, uri, m)
        c.wait(c.begin("textDocument/documentSymbol", {"textDocument": {"uri": uri}}))
        c.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    for method in ["didOpen", "didChange", "didSave", "didClose"]:
        for params in [None, 7, {}, {"textDocument": {}}, {"textDocument": {"uri": "file:///other.net"}}, {"textDocument": {"uri": 7, "text": 7}}]:
            c.tell("textDocument/" + method, params)
    c.change(u, 2, 7, None, {}, {"text": None}, {"range": {}, "text": "x"})
    c.change(u, 1, {"range": {"start": {"line": 9**9, "character": 0}, "end": {"line": 0, "character": 0}}, "text": ""})
    check(c.ask("netc/text", {"textDocument": {"uri": u}})["text"] == "", "the range the wrong way round is all")
    c.change(u, 3, {"text": GOOD})
    check(len(c.at("references", u, *place(GOOD, "x + x"), context={"includeDeclaration": True})) == 3, "it goes on")
    check(c.stop() == 0, "its end")


@part
def large():
    """Ten million bytes are kept and edited, and looked at by nobody."""
    c = Client(netc)
    text = "# " + "x" * 98 + "\n"
    text = text * (10_000_000 // len(text)) + GOOD
    c.open(u, text)
    found = c.diagnostics(u, 1)
    check(len(found) == 1 and "too long" in found[0]["message"] and found[0]["severity"] == 2, found)
    end = {"line": text.count("\n"), "character": 0}
    c.change(u, 2, {"range": {"start": end, "end": end}, "text": "# end"})
    check(c.ask("netc/text", {"textDocument": {"uri": u}})["text"] == text + "# end", "an edit of it")
    check(c.ask("textDocument/documentSymbol", {"textDocument": {"uri": u}}) == [], "no symbols")
    check(c.error("textDocument/formatting", {"textDocument": {"uri": u}, "options": {}}).get("code") == -32803, "not formatted")
    c.change(u, 3, {"text": GOOD})
    check(c.diagnostics(u, 3) == [], "a short text again")
    # Much of everything in little: it is looked at, and not for ever.
    for v, t in enumerate(["fn f(x) { return x }\n" * 20000, "[" * 100000, "x = 1\n" * 100000, "model m(x: f32[2]) { for i in 0..3000000 { y = x + i } return x }\n",
                           "a." * 50000, "\"" * 50001, "model m(x: f32[2]) { return y = " + "x + " * 20000 + "x }\n"], 4):
        c.change(u, v, {"text": t})
        c.diagnostics(u, v)
        c.ask("textDocument/documentSymbol", {"textDocument": {"uri": u}})
        c.at("completion", u, 0, 5)
    check(c.stop() == 0, "its end")


@part
def edits():
    failures, what = fuzz(netc, root, 14, 10000)
    check(not failures, *failures)
    check(what["edits"] >= 10000 and what["analyses"] > 100, what)
    with open(netc, "rb") as f:
        sanitized = b"__asan_init" in f.read()
    check(sanitized or what["late"] < what["early"] + (6 << 20), "memory grows:", what)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@part
def gone():
    """The server is killed, or its client ends without a word: nothing stays behind."""
    c = Client(netc)
    long = "".join(f"    x{i + 1} = sin(x{i})\n" for i in range(20000))
    c.open("file:///long.net", "model long(x0: f32[4]) {\n" + long + "    return x20000\n}\n")
    begun, end = [], time.monotonic() + 1200
    while not begun and time.monotonic() < end:  # its analysis
        with open(f"/proc/{c.process.pid}/task/{c.process.pid}/children") as f:
            begun = f.read().split()
    c.process.kill()
    c.process.wait(1200)
    while any(map(running, begun)) and time.monotonic() < end + 1200:
        time.sleep(0.05)
    check(begun and not any(map(running, begun)), "left behind:", begun)
    c = Client(netc)
    c.process.stdin.close()
    check(c.process.wait(1200) == 1, "the end of input")


finish()
