"""A client of netc lsp, small and synchronous, for the tests."""
import json, os, select, subprocess, time

class Client:
    def __init__(self, netc, root=".", options=None, encodings=("utf-16",), env=None, workspace=None,
                 **process):
        self.process = subprocess.Popen([netc, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=dict(os.environ, **(env or {})), **process)
        self.buffer, self.next, self.notes, self.answers = b"", 0, [], {}
        self.limit = float(os.environ.get("LSP_LIMIT", 120))
        self.init = self.ask("initialize", {
            "processId": None, "rootUri": None, "initializationOptions": options or {},
            "capabilities": {"general": {"positionEncodings": list(encodings)}, "workspace": workspace or {},
                             "textDocument": {"hover": {"contentFormat": ["markdown", "plaintext"]}}}})
        self.tell("initialized", {})

    # -- messages
    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method, params):
        self.next += 1
        self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        return self.next

    def receive(self, seconds=None):
        """The next message, or None at the end or after the time."""
        end = time.monotonic() + (self.limit if seconds is None else seconds)
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if found:
                n = int(head.split(b":")[1])
                if len(rest) >= n:
                    self.buffer = rest[n:]
                    return json.loads(rest[:n])
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self.buffer += data

    def wait(self, id):
        """The answer to a request, whole."""
        while id not in self.answers:
            m = self.receive()
            if m is None:
                raise AssertionError(f"no answer; the server's exit code is {self.process.poll()}")
            if "method" in m:
                self.notes.append(m)
            else:
                self.answers[m.get("id")] = m
        return self.answers.pop(id)

    def ask(self, method, params):
        m = self.wait(self.begin(method, params))
        if "error" in m:
            raise RuntimeError(m["error"]["message"])
        return m["result"]

    def error(self, method, params):
        return self.wait(self.begin(method, params)).get("error", {})

    # -- documents
    def open(self, uri, text, version=1):
        self.tell("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "netc", "version": version,
                                                            "text": text}})

    def change(self, uri, version, *changes):
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": version},
                                             "contentChanges": list(changes)})

    def diagnostics(self, uri, version=None, clear=True):
        """Those of this version of the text."""
        while True:
            for i, m in enumerate(self.notes):
                p = m.get("params", {})
                if m["method"] == "textDocument/publishDiagnostics" and p["uri"] == uri and (
                        version is None or p.get("version") == version):
                    self.notes.pop(i)
                    return p["diagnostics"]
            m = self.receive()
            if m is None:
                raise AssertionError(f"no diagnostics; the server's exit code is {self.process.poll()}")
            if "method" in m:
                self.notes.append(m)
            else:
                self.answers[m.get("id")] = m

    def at(self, method, uri, line, character, **more):
        return self.ask("textDocument/" + method, {"textDocument": {"uri": uri},
                                                   "position": {"line": line, "character": character}, **more})

    def stop(self):
        """Ends it as a client should; the exit code."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.stdin.close()
        code = self.process.wait(self.limit)
        self.process.stdout.close()
        return code


def place(text, what, nth=0, into=0):
    """Line and character (UTF-16) of the nth time that a text stands there."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(what, at + 1)
    at += into
    line = text.count("\n", 0, at)
    begin = text.rfind("\n", 0, at) + 1
    return line, len(text[begin:at].encode("utf-16-le")) // 2


def apply(text, edits):
    """The text after the edits of an answer (ASCII texts)."""
    lines = [0]
    for i, c in enumerate(text):
        if c == "\n":
            lines.append(i + 1)
    def offset(p):
        return lines[p["line"]] + p["character"] if p["line"] < len(lines) else len(text)
    for e in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        text = text[:offset(e["range"]["start"])] + e["newText"] + text[offset(e["range"]["end"]):]
    return text
