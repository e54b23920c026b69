# SPDX-License-Identifier: Apache-2.0
"""A table of a page that takes long to measure: each row is written when it is there.

A row's first cell is its name, its last one says when and on which of the page's machines it was
measured. Rows that a run does not measure stay as they are, so a run may be of some rows, and one
that was interrupted can go on.
"""

import datetime
import os

from benchmarks.report import body_of, machine, section_of, table, with_machine, with_section

MEASURED = "measured"


class DatedTable:
    """The table with this key. `names`: all that rows may have, in their order."""

    def __init__(self, page, key, question, heads, names, framework):
        self._page, self._key, self._question = page, key, question
        self._heads, self._names = (*heads, MEASURED), list(names)
        self._machine = machine(os.getcwd(), framework)
        self._rows = {row[0]: row for row in rows_of(self._text(), key, self._heads)}

    def is_measured(self, name, since):
        """Whether a row was measured on this machine on that day (YYYY-MM-DD) or later."""
        if name not in self._rows:
            return False
        _, number = with_machine(self._text(), self._machine)
        told = self._rows[name][-1]
        return told[: len(since)] >= since and told.endswith(f", machine {number}")

    def row(self, name):
        """The cells of the row, its date the last one; none where there is no such row."""
        return self._rows.get(name, ())

    def put(self, row):
        """Writes it into the page, in place of one with its name."""
        text, number = with_machine(self._text(), self._machine)
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        measured = f"{date}, load {os.getloadavg()[0]:.1f}, machine {number}"
        self._rows[row[0]] = (*row, measured)
        rows = [self._rows[name] for name in self._names if name in self._rows]
        body = body_of(table(self._heads, *rows))
        text = with_section(text, self._key, self._question, body)
        self._page.write_text(text, encoding="utf-8")

    def _text(self):
        return self._page.read_text(encoding="utf-8") if self._page.exists() else ""


def rows_of(text, key, heads):
    """Cells of the rows between the markers, below these heads; none below others."""
    lines = section_of(text, key).splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return rows[2:] if rows and rows[0] == heads else []
