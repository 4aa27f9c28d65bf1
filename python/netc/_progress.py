"""The progress of training: a line that is updated in terminals, a cell in notebooks."""

import sys


def _number(v):
    return f"{v:.4g}"


def _left(seconds):
    minutes, s = divmod(int(seconds + 0.5), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def line(event, latest, width=24):
    done = event.step / event.total if event.total else 1
    bar = "█" * int(done * width) + "·" * (width - int(done * width))
    values = ", ".join(f"{k} {_number(v)}" for k, v in latest.items())
    epoch = f" epoch {event.epoch}/{event.epochs}" if event.epochs else ""
    return (f"{bar} {event.step}/{event.total}{epoch} | {values} | "
            f"{event.rate:,.0f}/s, {_left(event.seconds_left)} left")


class Terminal:
    def __init__(self, out):
        self.out, self.latest, self.open = out, {}, False

    def __call__(self, event):
        self.latest.update(event.metrics)
        if event.kind in ("progress", "eval") or (event.kind == "end" and self.open):
            self._show(line(event, self.latest))
        if event.kind == "end":
            self.close()

    def _show(self, text):
        import shutil
        columns = shutil.get_terminal_size().columns
        try:
            self.out.write("\r\033[K" + text[:max(columns - 1, 20)])
            self.out.flush()
            self.open = True
        except (OSError, UnicodeError, ValueError):
            self.out = open_null()

    def close(self):
        if self.open:
            self.out.write("\n")
            self.out.flush()
        self.open = False


class Notebook:
    def __init__(self):
        from IPython.display import display
        self.latest, self.handle, self._display = {}, None, display

    def __call__(self, event):
        self.latest.update(event.metrics)
        if event.kind not in ("progress", "eval", "end"):
            return
        text = {"text/plain": line(event, self.latest)}
        if self.handle is None:
            self.handle = self._display(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)

    def close(self):
        pass


class Silent:
    def __call__(self, event):
        pass

    def close(self):
        pass


def open_null():
    import io
    return io.StringIO()


def _in_notebook():
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def progress(wanted):
    """wanted: True, False, or None: only in terminals and notebooks."""
    if wanted is False:
        return Silent()
    if _in_notebook():
        return Notebook()
    if wanted or (sys.stderr is not None and sys.stderr.isatty()):
        return Terminal(sys.stderr)
    return Silent()
