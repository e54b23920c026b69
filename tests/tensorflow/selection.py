# SPDX-License-Identifier: Apache-2.0
"""Chooses the part of long lists that a run takes.

TENSORFLOW_PROGRAMS=part   some of each, in turn: every one within a week
TENSORFLOW_PROGRAMS=full   all
"""

import os

import pytest

from tests.oracle.turns import TODAY, of_the_day

SELECTION = os.environ.get("TENSORFLOW_PROGRAMS", "part")
if SELECTION not in ("part", "full"):
    raise pytest.UsageError(f"TENSORFLOW_PROGRAMS={SELECTION!r}: expected part or full")


def selected(items, in_turn):
    return list(items) if SELECTION == "full" else of_the_day(items, in_turn, TODAY)
