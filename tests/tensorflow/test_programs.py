# SPDX-License-Identifier: Apache-2.0
"""Every program trains to the same bits in fuzz.

TENSORFLOW_PROGRAMS=part   some of them, in turn: every one within a week
TENSORFLOW_PROGRAMS=full   all
"""

import importlib.util
import os

import pytest

from tests.oracle.turns import TODAY, of_the_day
from tests.tensorflow.programs.table import PROGRAMS
from tests.tensorflow.runner import assert_equal

SELECTION = os.environ.get("TENSORFLOW_PROGRAMS", "part")
if SELECTION not in ("part", "full"):
    raise pytest.UsageError(f"TENSORFLOW_PROGRAMS={SELECTION!r}: expected part or full")
IN_TURN = 4


def _selected():
    return list(PROGRAMS) if SELECTION == "full" else of_the_day(PROGRAMS, IN_TURN, TODAY)


@pytest.mark.parametrize("program", _selected())
def test_in_fuzz(server, program):
    """Every pair copies in every step, freed memory is poisoned, and checksums are compared."""
    row = PROGRAMS[program]
    if importlib.util.find_spec(row.package) is None:
        pytest.skip(f"{row.package} is not installed")
    found = server.train(program, SPILLWAY_MODE="fuzz", SPILLWAY_BUDGET="4GiB")
    assert found.status == 0, found.errors
    assert_equal(found, server.kept(program))
    statistics = found.statistics
    assert statistics["failed_copies"] == 0
    assert statistics["failed_allocations"] == 0
    assert statistics["pairs_passing"] == 0
    if not row.moves:
        assert statistics["evicted_bytes"] == 0
        return
    assert statistics["graphs_rewritten"] >= 1
    assert statistics["evicted_bytes"] > 0
    assert statistics["fetched_bytes"] > 0
