# SPDX-License-Identifier: Apache-2.0
"""Unchanged TensorFlow programs train to the same bits, whatever is moved meanwhile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).parent / "programs" / "train.py"
PROGRAMS = ["mlp", "cnn", "cnn_in_loop", "lstm", "dynamic_lstm", "custom_loop"]
MIB = 1 << 20


def train(folder, program, **variables):
    """Losses and weights, and Spillway's statistics where a variable asked for it."""
    output = folder / "result.npz"
    statistics = folder / "statistics.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    if variables:
        environment["SPILLWAY_STATS"] = str(statistics)
    done = subprocess.run(
        [sys.executable, PROGRAM, program, output],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = np.load(output)
    return dict(found), json.loads(statistics.read_text()) if variables else None, done.stderr


@pytest.fixture(scope="session")
def stock(tmp_path_factory):
    results = {}

    def result_of(program):
        if program not in results:
            results[program], _, _ = train(tmp_path_factory.mktemp(program), program)
        return results[program]

    return result_of


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    different = [name for name in found if not np.array_equal(found[name], expected[name])]
    assert not different
    assert np.isfinite(expected["losses"]).all()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_pair_copies_and_freed_memory_is_poisoned(tmp_path, stock, program):
    found, statistics, _ = train(tmp_path, program, SPILLWAY_MODE="fuzz", SPILLWAY_BUDGET="400MiB")
    assert_equal(found, stock(program))
    assert statistics["graphs_rewritten"] >= 1
    assert statistics["pairs_passing"] == 0
    assert statistics["evicted_bytes"] > 0
    assert statistics["fetched_bytes"] > 0
    assert statistics["failed_copies"] == 0


# Between what the program needs with everything copied and what it needs alone.
@pytest.mark.parametrize(("program", "budget"), [("mlp", 16), ("cnn", 40), ("cnn_in_loop", 40)])
def test_a_budget_below_the_need_holds(tmp_path, stock, program, budget):
    (tmp_path / "roomy").mkdir()
    _, roomy, _ = train(tmp_path / "roomy", program, SPILLWAY_BUDGET="1GiB")
    found, statistics, _ = train(tmp_path, program, SPILLWAY_BUDGET=f"{budget}MiB")
    assert_equal(found, stock(program))
    assert statistics["budget_bytes"] == budget * MIB
    assert statistics["peak_device_bytes"] <= budget * MIB < roomy["peak_device_bytes"]
    assert statistics["failed_allocations"] == 0
    # It copied in every step, where the roomy one copied in its first ones.
    assert statistics["evicted_bytes"] > roomy["evicted_bytes"]


def test_what_fits_passes_after_the_first_steps(tmp_path, stock):
    found, statistics, _ = train(tmp_path, "mlp", SPILLWAY_BUDGET="1GiB")
    assert_equal(found, stock("mlp"))
    assert statistics["pairs_used"] == statistics["pairs_passing"] > 0


def test_host_memory_holds_what_left_where_it_has_a_budget(tmp_path, stock):
    found, statistics, _ = train(
        tmp_path, "mlp", SPILLWAY_BUDGET="16MiB", SPILLWAY_HOST_BUDGET="1GiB",
        SPILLWAY_DISK_BUDGET="1MiB",
    )  # fmt: skip
    assert_equal(found, stock("mlp"))
    assert statistics["fetched_bytes"] > 0


def test_a_full_disk_leaves_tensors_where_they_are(tmp_path, stock):
    found, _, errors = train(tmp_path, "mlp", SPILLWAY_BUDGET="400MiB", SPILLWAY_DISK_BUDGET="1MiB")
    assert_equal(found, stock("mlp"))
    assert errors.count("a tensor that was to leave stays in memory") == 1
    assert "need" in errors and "short" in errors


def test_a_disk_that_fails_to_write_leaves_tensors_where_they_are(tmp_path, stock):
    found, statistics, errors = train(
        tmp_path, "mlp", SPILLWAY_BUDGET="400MiB", SPILLWAY_FAULTS="spool.write=EIO@5+"
    )
    assert_equal(found, stock("mlp"))
    assert statistics["failed_copies"] > 0
    assert "writing to the spool failed: Input/output error" in errors
