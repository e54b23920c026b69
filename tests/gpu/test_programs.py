# SPDX-License-Identifier: Apache-2.0
"""Programs on a graphics card compute the same bits while Spillway moves their CPU tensors.

Tensors on the card are left alone; what they are copied from and to is not. `make gpu` runs these
tests where there is a card. Elsewhere the same programs train on the processor, under fuzz alone.
"""

import os
import subprocess
import sys

import pytest
import torch

from tests.oracle import judge
from tests.oracle.catalog import ON_A_CARD
from tests.oracle.launch import mode_variables, required_statistics, run_programs
from tests.oracle.schedule import budget_for

CASES = [(program.name, optimizer) for program in ON_A_CARD for optimizer in program.optimizers]
# Nothing of these is large enough in CPU memory to be worth moving: they must run as ever.
MOVES_LITTLE = {"graph_replay", "recurrent_ctc"}
HAS_CARD = torch.cuda.is_available()
if not HAS_CARD and os.environ.get("REQUIRE_GPU") == "1":
    raise pytest.UsageError("REQUIRE_GPU=1, but torch.cuda.is_available() is false")
on_a_card = pytest.mark.skipif(not HAS_CARD, reason="no graphics card here: `make gpu` needs one")


def _is_equal(expected, child, case):
    child.require_complete()
    judge.same_bits(expected.runs[case], child.runs[case], child)


def _fuzz_equals(cases, folder):
    expected, again = (run_programs(cases, "tiny", {}, folder) for _ in range(2))
    fuzzed = run_programs(cases, "tiny", mode_variables("fuzz"), folder)
    for case in cases:
        _is_equal(expected, again, case)
        _is_equal(expected, fuzzed, case)
    assert required_statistics(fuzzed)["mode"] == "fuzz"
    assert fuzzed.moved_bytes > 0, fuzzed.command


@pytest.mark.skipif(HAS_CARD, reason="done on the card here")
def test_fuzz_without_a_card(tmp_path):
    """Keeps the programs from rotting: all in one process, on the processor."""
    _fuzz_equals(CASES, tmp_path)


@on_a_card
@pytest.mark.parametrize(("name", "optimizer"), CASES)
def test_fuzz(name, optimizer, tmp_path):
    _fuzz_equals([(name, optimizer)], tmp_path)


@on_a_card
@pytest.mark.parametrize(("name", "optimizer"), CASES)
def test_budget(name, optimizer, tmp_path):
    """Half of what the program holds in CPU memory, and never more of it than that."""
    case = (name, optimizer)
    expected, again = (run_programs([case], "full", {}, tmp_path) for _ in range(2))
    _is_equal(expected, again, case)
    recorded = run_programs([case], "full", mode_variables("record"), tmp_path)
    _is_equal(expected, recorded, case)
    stats = required_statistics(recorded)
    budget = budget_for(50, stats["peak_device_bytes"], stats["floor_bytes"])
    child = run_programs([case], "full", mode_variables("enforce", budget), tmp_path)
    _is_equal(expected, child, case)
    managed = required_statistics(child)
    assert managed["peak_device_bytes"] <= budget
    assert managed["overshoot_bytes"] == 0
    if name not in MOVES_LITTLE:
        judge.was_managed(child, stats["peak_device_bytes"], budget)


@on_a_card
@pytest.mark.parametrize("mode", ["enforce", "fuzz", "record"])
def test_starting_leaves_the_card_alone(mode, tmp_path):
    """No context is made by the import, so a process forked after it may still use the card."""
    script = tmp_path / "forks.py"
    script.write_text(
        "import os, torch\n"
        "assert not torch.cuda.is_initialized()\n"
        "x = torch.ones(1 << 20)\n"
        "assert not torch.cuda.is_initialized()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if (x.cuda() + 1).sum().item() == 2 << 20 else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "assert not torch.cuda.is_initialized()\n"
    )
    environment = os.environ | mode_variables(mode, 1 << 30)
    subprocess.run([sys.executable, script], env=environment, check=True, timeout=120)
