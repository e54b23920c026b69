# SPDX-License-Identifier: Apache-2.0
"""The line of the program that an op comes from."""

import ctypes
import sys

from spillway._library import WHERE
from spillway.recording.lines import LineNumbers


def on_a_thread_without_python(function) -> None:
    """Calls it from a thread whose only Python is this call, as torch's own threads do."""
    libc = ctypes.CDLL(None, use_errno=True)
    thread = ctypes.c_ulong()
    start = ctypes.cast(function, ctypes.c_void_p)
    assert libc.pthread_create(ctypes.byref(thread), None, start, None) == 0
    assert libc.pthread_join(thread, None) == 0


def test_a_line_has_one_number_and_is_announced_once():
    announced = []
    numbers = LineNumbers(lambda number, text: announced.append((number, text)))
    seen = [numbers.here() for _ in range(3)]
    other = numbers.here()
    assert seen == [1, 1, 1] and other == 2
    assert [number for number, _ in announced] == [1, 2]
    assert all(text.startswith("tests/recording/test_lines.py:") for _, text in announced)


def test_a_thread_without_python_has_no_line(monkeypatch):
    raised, seen = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: raised.append(error.exc_value))
    numbers = LineNumbers(lambda number, text: None)

    def here() -> int:
        seen.append(numbers.here())
        return 0

    on_a_thread_without_python(WHERE(numbers.here))
    assert raised == []
    on_a_thread_without_python(WHERE(here))  # which is a line of a program
    assert seen == [1]
