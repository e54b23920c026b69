# SPDX-License-Identifier: Apache-2.0
"""Tensors that are dropped and made again have the same bits, whatever happens to their sources."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.pseudo_terminal import clean_environment
from tests.oracle.recomputed import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300  # seconds
BUDGET = "20MiB"  # the largest working set is 18


def _run(name, folder, **variables):
    report = folder / f"{name}.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.oracle.recomputed", name, str(report)],
        cwd=ROOT,
        env=clean_environment({"SPILLWAY_SPOOL_DIR": str(folder)} | variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(report.read_text())


@functools.cache
def _stock(name, folder):
    return _run(name, folder)["digest"]


@pytest.fixture(scope="session")
def stock(tmp_path_factory):
    return functools.partial(_stock, folder=tmp_path_factory.mktemp("stock"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_made_again_has_the_same_bits(product, stock, tmp_path, name):
    """Fuzz mode drops what it can at every op, and compares what is made again."""
    fuzzed = _run(name, tmp_path, SPILLWAY_BUDGET="1GiB", SPILLWAY_MODE="fuzz")
    assert fuzzed["digest"] == stock(name)
    assert fuzzed["counted"]["recomputations"] > 0
    assert fuzzed["counted"]["checksums_compared"] > 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_budget_holds_with_it(product, stock, tmp_path, name):
    managed = _run(name, tmp_path, SPILLWAY_BUDGET=BUDGET, SPILLWAY_RECOMPUTE="on")
    assert managed["digest"] == stock(name)
    assert managed["counted"]["overshoot_bytes"] == 0


def test_nothing_is_dropped_where_it_is_off(product, stock, tmp_path):
    name = "transformer"
    copied = _run(
        name, tmp_path, SPILLWAY_BUDGET="1GiB", SPILLWAY_MODE="fuzz", SPILLWAY_RECOMPUTE="off"
    )
    assert copied["digest"] == stock(name)
    assert copied["counted"]["recomputations"] == 0


def test_a_budget_makes_use_of_it(product, tmp_path):
    """Where it is cheaper than a copy, as measured: on a busy machine not in every run."""

    def recomputations():
        managed = _run("transformer", tmp_path, SPILLWAY_BUDGET=BUDGET, SPILLWAY_RECOMPUTE="on")
        return managed["counted"]["recomputations"]

    assert any(recomputations() for _ in range(3))
