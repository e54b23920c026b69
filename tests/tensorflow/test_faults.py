# SPDX-License-Identifier: Apache-2.0
"""Disks that fail, ops that fail, exceptions, Ctrl-C: no hang, no wrong value, one sentence."""

import functools
import itertools
import re

import pytest

from tests.tensorflow.runner import MIB, assert_equal, run
from tests.tensorflow.selection import selected

FUZZ = {"SPILLWAY_MODE": "fuzz", "SPILLWAY_BUDGET": "400MiB"}
STAYS = "spillway: a tensor that was to leave stays in memory:"


def test_a_full_disk_leaves_tensors_where_they_are(server):
    found = run("train.py", "mlp", SPILLWAY_BUDGET="400MiB", SPILLWAY_DISK_BUDGET="1MiB")
    assert_equal(found, server.kept("mlp"))
    assert found.errors.count(STAYS) == 1
    assert "need" in found.errors and "short" in found.errors


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ("spool.write=EIO@5+", "writing to the spool failed: Input/output error"),
        ("spool.write=ENOSPC@1+", "writing to the spool failed: No space left on device"),
        ("spool.open=EACCES@1+", "no permission to create a file there"),
    ],
)
def test_what_cannot_be_written_stays(server, faults, words):
    found = run("train.py", "mlp", SPILLWAY_BUDGET="400MiB", SPILLWAY_FAULTS=faults)
    assert_equal(found, server.kept("mlp"))
    assert found.errors.count(STAYS) == 1
    assert words in found.errors


@pytest.mark.parametrize("faults", ["spool.write=short@1+", "spool.read=short@1+"])
def test_half_a_transfer_is_made_whole(server, faults):
    found = run("train.py", "mlp", SPILLWAY_BUDGET="16MiB", SPILLWAY_FAULTS=faults)
    assert_equal(found, server.kept("mlp"))
    assert found.statistics["failed_copies"] == 0
    assert found.statistics["fetched_bytes"] > 0


def test_copies_that_end_late_and_in_another_order(server):
    faults = "spool.write=delay:3ms@1+, spool.read=delay:5ms@2+"
    found = run("train.py", "cnn", SPILLWAY_BUDGET="40MiB", SPILLWAY_FAULTS=faults)
    assert_equal(found, server.kept("cnn"))
    assert found.statistics["fetched_bytes"] > 0
    assert found.statistics["peak_device_bytes"] <= 40 * MIB


@pytest.mark.parametrize("swaps", ["on", "off"])
def test_what_cannot_be_read_back_ends_its_step(swaps):
    found = run(
        "train.py", "mlp", SPILLWAY_BUDGET="16MiB", SPILLWAY_FAULTS="spool.read=EIO@3+",
        SPILLWAY_TF_ASYNC=swaps,
    )  # fmt: skip
    assert found.status == 1
    words = (
        r"Spillway could not bring back a tensor of .*iB that \S*(Relu|sequential)\S* made: "
        r"reading from the spool failed: Input/output"
    )
    assert re.search(words, found.errors)
    assert "ResourceExhaustedError" in found.errors
    assert found.arrays == {}


DISTURBED = [
    "failing_op",
    "failing_python",
    "failing_callback",
    "interrupted",
]


SETTINGS = {
    "as it is": {},
    # Swap-ins wait for an edge of the graph, and not for a clock.
    "without a planner": {"SPILLWAY_PLANNER": "none"},
    # Swap-ins wait when the op fails.
    "slow": {"SPILLWAY_FAULTS": "spool.read=delay:5ms@1+"},
}


@functools.cache
def _disturbed(program):
    return run("disturbed.py", program, timeout=300)


@pytest.mark.parametrize(
    ("program", "settings"), selected(itertools.product(DISTURBED, SETTINGS), in_turn=4)
)
def test_a_program_in_which_something_fails_goes_on(program, settings):
    stock = _disturbed(program)
    assert stock.status == 0, stock.errors
    found = run("disturbed.py", program, 300, **FUZZ, **SETTINGS[settings])
    assert found.status == 0, found.errors
    assert_equal(found, stock)
    assert found.statistics["fetched_bytes"] > 0
