"""Tables of results for scripts and for people."""

import html


def _cell(value):
    if isinstance(value, float):
        return f"{value:.5g}"
    return "" if value is None else str(value)


class Table(list):
    """A list of dicts, one per row, that prints as a table and is shown as one in notebooks.

    columns: names in the order in which they are shown. text: a longer form for people, if there is one.
    data: further results.
    """

    def __init__(self, rows=(), columns=None, text=None, data=None):
        super().__init__(rows)
        self._columns, self.text, self.data = columns, text, data

    @property
    def columns(self):
        if self._columns:
            return list(self._columns)
        names = {}
        for row in self:
            names.update(dict.fromkeys(row))
        return list(names)

    def column(self, name):
        """The values of one column; None for rows without it."""
        return [row.get(name) for row in self]

    def _cells(self):
        columns = self.columns
        return columns, [[_cell(row.get(c)) for c in columns] for row in self]

    def __repr__(self):
        if self.text is not None:
            return self.text
        columns, cells = self._cells()
        numbers = [all(isinstance(v, (int, float, type(None))) for v in self.column(c)) for c in columns]
        widths = [max([len(c)] + [len(r[i]) for r in cells]) for i, c in enumerate(columns)]
        rows = [columns] + cells
        return "\n".join("  ".join(v.rjust(w) if n else v.ljust(w) for v, w, n in zip(r, widths, numbers)).rstrip()
                         for r in rows)

    def _repr_html_(self):
        columns, cells = self._cells()
        head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(v)}</td>" for v in r) + "</tr>" for r in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
