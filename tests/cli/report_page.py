"""What tests/cli/report_page.sh asks of a page: `data PAGE EXPRESSION` of its JSON (d, T, scopes), `same PAGE INSPECT`,
`open CHROMIUM PAGE`: no error, content, folding, choosing, by the browser's own debugging pipe."""
import json, os, re, subprocess, sys, tempfile


def data(path):
    text = open(path, encoding="utf-8").read()
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert len(found) == 1 and "<" not in found[0], "the data of the page"
    return json.loads(found[0])


def check(path, expression):
    d = data(path)
    texts = d["texts"]
    scopes = {texts[s[10]] for s in d["steps"]}
    return 0 if eval(expression, {"d": d, "T": texts, "scopes": scopes}) else f"not so: {expression}: {sorted(scopes)} {d['notes']}"


def same(path, inspect):
    d = data(path)
    entry = next(e for e in json.load(open(inspect))["entries"] if e["name"] == d["entry"])
    rows = [(d["texts"][s[1]], d["texts"][s[2]], d["texts"][s[3]], *s[6:10]) for s in d["steps"]]
    want = [(s["kind"], s["name"], s["line"], s["calls"], s["bytes"], s["flops"], s["floor_seconds"]) for s in entry["steps"]]
    peak = max(sum(b[4] for b in d["buffers"] if d["texts"][b[1]] == "temporary" and b[6] <= i <= b[7]) for i in range(9999))
    if rows != want: return f"steps differ: {rows[:2]} {want[:2]}"
    if d["memory"]["arena"] != entry["arena_bytes"] or not 0 <= entry["peak_bytes"] - peak <= 4096: return f"memory differs: {peak}, {entry['peak_bytes']}"
    return 0


class Browser:
    def __init__(self, program, home):
        mine, theirs = os.pipe(), os.pipe()  # we write, it writes

        def pipes():
            a, b = os.dup(mine[0]), os.dup(theirs[1])
            a, b = (os.dup(a) if a in (3, 4) else a), (os.dup(b) if b in (3, 4) else b)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen([program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
            f"--user-data-dir={home}", "--window-size=1400,1000", "about:blank"], preexec_fn=pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(mine[0]), os.close(theirs[1])
        self.out, self.into, self.rest, self.number, self.events, self.session = mine[1], theirs[0], b"", 0, [], None

    def receive(self):
        while b"\0" not in self.rest:
            got = os.read(self.into, 1 << 16)
            if not got: raise RuntimeError("the browser ended")
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session: message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            got = self.receive()
            if got.get("id") == self.number:
                if "error" in got: raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def wait(self, method):
        while not any(e.get("method") == method for e in self.events): self.events.append(self.receive())

    def ask(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in got: raise RuntimeError(f"{expression}: {got['exceptionDetails']}")
        return got["result"].get("value")


def drive(b, path):
    target = b.call("Target.createTarget", url="about:blank")["targetId"]
    b.session = b.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network", "Performance"): b.call(domain + ".enable")
    b.call("Page.navigate", url="file://" + path)
    b.wait("Page.loadEventFired")
    wrong = []

    def want(expression, what):
        if not b.ask(expression): wrong.append(f"{what}: {expression} is {b.ask(expression)!r}")

    rows, shown = "document.querySelectorAll('#tree [role=treeitem]').length", "document.querySelectorAll('#kernels tbody tr').length"
    want("document.documentElement.dataset.ready === 'yes'", "not drawn to the end")
    metrics = {m["name"]: m["value"] for m in b.call("Performance.getMetrics")["metrics"]}
    if metrics["TaskDuration"] > 1: wrong.append(f"drawing took {metrics['TaskDuration']:.2f} s of a processor")
    want("document.querySelectorAll('.tile').length >= 6", "the head")
    want(f"{shown} === Math.min(100, steps.length)", "the table")
    want("document.querySelectorAll('#flow .box').length > 0", "the flow")
    want("!D.logs.length || document.querySelectorAll('#curves svg path').length > 0", "the curves")
    want("document.querySelectorAll('img').length === 0", "an element that the model's text made")
    want("[...document.querySelectorAll('canvas')].every(c => { const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
         " for (let i = 3; i < p.length; i += 4) if (p[i]) return true; })", "an empty plot")
    before = b.ask(rows)
    b.ask("{ const r = document.querySelector('#tree [aria-expanded=false]'); if (r) r.click(); }")
    if b.ask("root.below.size > 0"):
        want(f"{rows} > {before}", "unfolding a scope")
        b.ask("document.querySelectorAll('#tree [aria-expanded=true]')[1].click()")
        want(f"{rows} === {before}", "folding it again")
    b.ask("document.querySelector('#kernels tbody tr').click()")
    want("!document.getElementById('detail').hidden && document.querySelector('#detail h3').textContent === chosen.name", "what was chosen")
    b.ask("{ $('filter').value = 'no such kernel'; $('filter').dispatchEvent(new Event('input')); }")
    want(f"{shown} === 0", "the filter")
    b.ask("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    want("document.getElementById('detail').hidden", "closing")
    for e in b.events:
        p = e.get("params", {})
        if e["method"] == "Runtime.exceptionThrown": wrong.append(p["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if e["method"] == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"): wrong.append(p["entry"]["text"])
        if e["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning"): wrong.append(str(p["args"]))
        if e["method"] == "Network.requestWillBeSent" and not p["request"]["url"].startswith("file://" + path[:1]): wrong.append(p["request"]["url"])
    print(f"drawn, {metrics['TaskDuration']:.2f} s of a processor, {metrics['ScriptDuration']:.2f} s of it in the script")
    return "\n".join(wrong) or 0


def open_page(program, path):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        b = Browser(program, home)
        try:
            return drive(b, path)
        finally:
            b.process.kill()
            b.process.wait()


sys.exit({"data": check, "same": same, "open": open_page}[sys.argv[1]](*sys.argv[2:]))
