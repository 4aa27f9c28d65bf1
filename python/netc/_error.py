"""Errors of the library as exceptions."""

import json
import re

_STATUS = ("ok", "invalid", "environment", "out of memory", "check failed", "cancelled", "internal")
_NAMES = {"none": "None", "true": "True", "false": "False"}
# Options of the command line in a text, and what they are called here.
_OPTIONS = [
    (re.compile(r"--(eval-)?data ([\w.]+)=FILE"), lambda o: f'{"eval_" if o[1] else ""}data={{"{o[2]}": …}}'),
    (re.compile(r"""-D ([\w.]+)=(-?(?:\d[\d.]*e[-+]?\d+|[\w.]*\w)|…|\[[^\]]*\]|"[^"]*")"""),
     lambda o: f'defines={{"{o[1]}": {_NAMES.get(o[2], o[2])}}}'),
    (re.compile(r"--(device|precision|entry) ([\w:.]+)"), lambda o: f'{o[1]}="{o[2]}"'),
    (re.compile(r"--(save-best|save-every|save|eval-data|eval-every|data|keep-last|split|epochs|steps|patience|weights|map|ignore|"
                r"transpose|allow-missing|tune-file|memory-limit|program|entries)\b( FILE\b| S\b| N\b| NAME\b)?"),
     lambda o: o[1].replace("-", "_") + ("=…" if o[2] else "")),
]


def _here(text):
    for option, name in _OPTIONS:
        text = option.sub(name, text)
    return text


class Error(Exception):
    """An error found by netc. str(e) is the message for a person, with the line and a caret below it.

    status: "invalid" (the caller's input: the model, a shape, a name), "environment" (no GPU, no
        compiler), "out of memory", "check failed" (an index out of range, a loss that is not
        finite), "cancelled", "internal".
    diagnostics: a dict for each finding: severity, message and, if known, file, line and column.
    """

    def __init__(self, text, status=1, diagnostics=""):
        super().__init__(_here(text.removeprefix("error: ")))
        self.status = _STATUS[status] if 0 <= status < len(_STATUS) else "internal"
        self._json = diagnostics

    @property
    def diagnostics(self):
        if self._json:
            return json.loads(self._json)
        return [{"severity": "error", "message": str(self)}]
