# SPDX-License-Identifier: Apache-2.0
"""A terminal's screen in memory: enough of a VT100 for the command and a progress bar.

A sequence it does not know is an error, so that nothing the command sends goes unchecked.
"""

import re

SEQUENCE = re.compile(r"\x1b(?:\[([0-9;]*)([A-Za-z])|([78D]))")


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.top, self.bottom = 0, rows - 1
        self.saved = (0, 0)
        self.scrolled_off = []
        self._unfinished = ""

    def text(self):
        """Rows as strings, without blanks at their ends."""
        return ["".join(row).rstrip() for row in self.cells]

    def history(self):
        """Everything ever scrolled off, and what is on the screen."""
        return self.scrolled_off + self.text()

    def region(self):
        return (self.top + 1, self.bottom + 1)

    def resize(self, rows, columns):
        """As tmux does: rows below the cursor go first, then rows from the top."""
        while len(self.cells) > rows:
            if self.row < len(self.cells) - 1:
                self.cells.pop()
            else:
                self.scrolled_off.append("".join(self.cells.pop(0)).rstrip())
                self.row -= 1
        while len(self.cells) < rows:
            self.cells.append([])
        self.cells = [(row + [" "] * columns)[:columns] for row in self.cells]
        self.rows, self.columns = rows, columns
        self.top, self.bottom = 0, rows - 1

    def feed(self, text):
        text = self._unfinished + text
        position = 0
        while position < len(text):
            if text[position] != "\x1b":
                self._put(text[position])
                position += 1
                continue
            match = SEQUENCE.match(text, position)
            if match is None:
                rest = text[position:]
                assert re.fullmatch(r"\x1b(\[[0-9;]*)?", rest), f"unknown sequence {rest[:20]!r}"
                break
            self._obey(match)
            position = match.end()
        self._unfinished = text[position:]

    def _put(self, character):
        if character == "\n":
            self._index()
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        else:
            assert character >= " ", f"unknown control {character!r}"
            if self.column == self.columns:
                self.column = 0
                self._index()
            self.cells[self.row][self.column] = character
            self.column += 1

    def _index(self):
        if self.row == self.bottom:
            gone = self.cells.pop(self.top)
            if self.top == 0:
                self.scrolled_off.append("".join(gone).rstrip())
            self.cells.insert(self.bottom, [" "] * self.columns)
        elif self.row < self.rows - 1:
            self.row += 1

    def _obey(self, match):
        numbers = [int(n) for n in (match[1] or "").split(";") if n]
        code = match[2] or match[3]
        if code == "7":
            self.saved = (self.row, self.column)
        elif code == "8":
            self.row, self.column = self.saved
        elif code == "D":
            self._index()
        elif code == "A":
            self.row = max(self.top, self.row - (numbers or [1])[0])
        elif code == "H":
            self.row, self.column = ((numbers or [1, 1])[0] - 1, [*numbers, 1, 1][1] - 1)
        elif code == "K":
            start = 0 if numbers == [2] else self.column
            self.cells[self.row][start:] = [" "] * (self.columns - start)
        elif code == "r":
            first, last = numbers or (1, self.rows)
            self.top, self.bottom, self.row, self.column = first - 1, last - 1, 0, 0
        else:
            assert code == "m", f"unknown sequence {match[0]!r}"
