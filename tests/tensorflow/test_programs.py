# SPDX-License-Identifier: Apache-2.0
"""Every program trains to the same bits in fuzz, by oneDNN's kernels and, some, without them."""

import importlib.util

import pytest

from tests.tensorflow.programs.table import PROGRAMS
from tests.tensorflow.runner import assert_equal, run
from tests.tensorflow.selection import selected


@pytest.mark.parametrize("program", selected(PROGRAMS, 4))
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
    assert (statistics["graphs_rewritten"] >= 1) == row.swaps
    assert statistics["evicted_bytes"] > 0
    assert statistics["fetched_bytes"] > 0


@pytest.mark.parametrize(
    "program", selected(["mlp", "cnn", "unet_2d", "lstm", "transformer", "until_no_data"], 1)
)
def test_without_kernels_of_one_dnn(program):
    """TensorFlow's own choice where the processor has no instructions for networks."""
    alone = run("train.py", program, TF_ENABLE_ONEDNN_OPTS="0")
    found = run(
        "train.py", program, TF_ENABLE_ONEDNN_OPTS="0", SPILLWAY_MODE="fuzz", SPILLWAY_BUDGET="4GiB"
    )
    assert found.status == 0, found.errors
    assert_equal(found, alone)
    assert found.statistics["evicted_bytes"] > 0
