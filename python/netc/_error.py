"""Errors of the library as exceptions."""

import json
import re

_STATUS = ("ok", "invalid", "environment", "out of memory", "check failed", "cancelled", "internal")
# Of a text, what the command line calls data={"image": …}.
_OPTION = re.compile(r"--(eval-)?data ([\w.]+)=FILE")


def _here(option):
    return f'{"eval_" if option[1] else ""}data={{"{option[2]}": …}}'


class Error(Exception):
    """What netc found wrong. str(e) is what a person reads, with the line and a caret below it.

    status: "invalid" (what was given: the model, a shape, a name), "environment" (no GPU, no
        compiler), "out of memory", "check failed" (an index out of range, a loss that is not
        finite), "cancelled", "internal".
    diagnostics: a dict for each finding: severity, message, and where it is known file, line,
        column.
    """

    def __init__(self, text, status=1, diagnostics=""):
        super().__init__(_OPTION.sub(_here, text.removeprefix("error: ")))
        self.status = _STATUS[status] if 0 <= status < len(_STATUS) else "internal"
        self._json = diagnostics

    @property
    def diagnostics(self):
        if self._json:
            return json.loads(self._json)
        return [{"severity": "error", "message": str(self)}]
