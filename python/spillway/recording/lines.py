# SPDX-License-Identifier: Apache-2.0
"""Finds the line of the program that is running: the innermost outside torch and Spillway."""

import itertools
import os
import sys
import types
from collections.abc import Callable

import torch

_LIBRARIES = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


def of_program(code: types.CodeType) -> bool:
    """Whether the code belongs to neither torch nor Spillway nor the interpreter."""
    name = code.co_filename
    return not name.startswith(_LIBRARIES) and not name.startswith("<frozen")


def text(file: str, line: int) -> str:
    """`train.py:12`, below the working directory or the package folder it is in."""
    here = os.getcwd() + os.sep
    for prefix in (here, *(entry.rstrip(os.sep) + os.sep for entry in sys.path if entry)):
        if file.startswith(prefix):
            return f"{file[len(prefix) :]}:{line}"
    return f"{os.path.basename(file)}:{line}"


def of_error(error: BaseException) -> str:
    """The innermost line of the program in an exception's traceback, or an empty text."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        if of_program(trace.tb_frame.f_code):
            found = text(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


class LineNumbers:
    """Numbers for lines: called for every op, so that texts are made once a line."""

    def __init__(self, announce: Callable[[int, str], None]) -> None:
        self._announce = announce
        self._numbers: dict[tuple[types.CodeType, int], int] = {}
        self._of_program: dict[types.CodeType, bool] = {}
        self._next = itertools.count(1)

    def here(self) -> int:
        """The number of the line that is running; 0 where no line of the program is.

        Any thread may ask, those of torch too, where no frame but this one is Python's.
        """
        frame = sys._getframe().f_back
        known = self._of_program
        while frame is not None:
            code = frame.f_code
            mine = known.get(code)
            if mine is None:
                mine = known[code] = of_program(code)
            if mine:
                key = (code, frame.f_lineno)
                number = self._numbers.get(key)
                return self._number(key) if number is None else number
            frame = frame.f_back
        return 0

    def _number(self, key: tuple[types.CodeType, int]) -> int:
        # Threads that ask at once for one line get one number, and its text is there before it.
        number = next(self._next)
        self._announce(number, text(key[0].co_filename, key[1]))
        return self._numbers.setdefault(key, number)
