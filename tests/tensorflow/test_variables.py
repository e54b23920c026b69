# SPDX-License-Identifier: Apache-2.0
"""Variables beyond a share of the budget lie in the store, and are what they are without it."""

import functools
import re

import pytest

from tests.tensorflow.runner import MIB, assert_equal, run
from tests.tensorflow.selection import selected

_kept = {}


def stock(program):
    if program not in _kept:
        _kept[program] = run("variables.py", program)
        assert _kept[program].status == 0, _kept[program].errors
    return _kept[program]


@pytest.mark.parametrize(
    ("program", "budget", "variables", "most"),
    [
        ("wide", 14, 18, r"(adam/)?sequential[/_]dense(_\d)?[/_]kernel\w* 1 MiB"),
        # Up to six gradients of 1 MiB wait for their updates, in whatever order threads come to:
        # with 5 MiB every other run ends for want of memory, with 6 one of sixty.
        ("wide_without_optimizer_state", 8, 6, r"sequential\w*/dense.*"),
        ("embedding", 9, 16, "Variable 4 MiB"),
        ("constants", 7, 8, r"Const_\d 1 MiB"),
    ],
)
def test_a_program_trains_whose_variables_do_not_fit(program, budget, variables, most):
    found = run("variables.py", program, SPILLWAY_BUDGET=f"{budget}MiB")
    assert found.status == 0, found.errors
    assert_equal(found, stock(program))
    statistics = found.statistics
    assert statistics["peak_device_bytes"] <= budget * MIB
    assert statistics["failed_allocations"] == 0
    # All but what may lie in memory.
    assert statistics["peak_variable_bytes"] >= (variables - budget / 4 - 1) * MIB
    assert statistics["peak_uncounted_variable_bytes"] == 0
    assert re.fullmatch(most, statistics["top_movers"][0]["name"])


def test_what_lies_in_memory_is_what_counts():
    found = run("resident.py", "wide", SPILLWAY_BUDGET="14MiB")
    assert found.status == 0, found.errors
    resident, counted = found.arrays.pop("resident_bytes"), found.arrays.pop("counted_bytes")
    assert_equal(found, stock("wide"))
    assert len(resident) > 20
    assert resident.max() > 2 * MIB
    # One variable whose pages come just now, and one that came and went between two samples.
    assert (resident - counted).max() <= 2 * MIB


@pytest.mark.parametrize("planner", ["lms", "partitioned"])
def test_under_a_planner_variables_need_not_fit_either(planner):
    found = run("variables.py", "wide", SPILLWAY_BUDGET="16MiB", SPILLWAY_PLANNER=planner)
    assert found.status == 0, found.errors
    assert_equal(found, stock("wide"))
    assert found.statistics["peak_device_bytes"] <= 16 * MIB
    assert found.statistics["failed_allocations"] == 0
    assert found.statistics["peak_variable_bytes"] >= 13 * MIB


@pytest.mark.parametrize(
    "program", selected(["wide", "embedding", "writes", "saved", "constants"], in_turn=2)
)
def test_in_fuzz(program):
    """Every variable is put aside before each use that is known of."""
    found = run("variables.py", program, SPILLWAY_MODE="fuzz", SPILLWAY_BUDGET="400MiB")
    assert found.status == 0, found.errors
    assert_equal(found, stock(program))
    assert found.statistics["peak_variable_bytes"] > 0
    assert found.statistics["fetched_bytes"] > 0


def test_checkpoints_and_weights_within_the_budget():
    found = run("variables.py", "saved", SPILLWAY_BUDGET="26MiB")
    assert found.status == 0, found.errors
    assert_equal(found, stock("saved"))
    assert found.statistics["peak_variable_bytes"] > 18 * MIB
    assert found.statistics["peak_uncounted_variable_bytes"] == 0


def test_what_an_op_is_given_beyond_the_budget_is_told():
    """Saving is given 18 MiB of variables at once, which no budget below that can count."""
    found = run("variables.py", "written", SPILLWAY_BUDGET="14MiB", SPILLWAY_SUMMARY="1")
    assert found.status == 0, found.errors
    assert_equal(found, stock("written"))
    statistics = found.statistics
    assert statistics["peak_device_bytes"] <= 14 * MIB
    assert 18 - 14 <= statistics["peak_uncounted_variable_bytes"] / MIB <= 19
    assert re.search(r"^spillway: up to .+ of variables, which the peak does", found.errors, re.M)


def test_host_memory_holds_variables_where_it_has_a_budget():
    found = run(
        "variables.py", "wide", SPILLWAY_BUDGET="12MiB", SPILLWAY_HOST_BUDGET="40MiB",
        SPILLWAY_DISK_BUDGET="1MiB",
    )  # fmt: skip
    assert found.status == 0, found.errors
    assert_equal(found, stock("wide"))
    assert found.statistics["peak_device_bytes"] <= 12 * MIB


def test_a_full_disk_leaves_variables_in_memory():
    found = run(
        "variables.py", "wide", SPILLWAY_BUDGET="40MiB", SPILLWAY_DISK_BUDGET="1MiB",
        SPILLWAY_SUMMARY="1",
    )  # fmt: skip
    assert found.status == 0, found.errors
    assert_equal(found, stock("wide"))
    times = found.statistics["refused_variables"]
    assert times > 0
    assert f"spillway: {times} times a variable was to leave memory and stayed: " in found.errors
    assert found.errors.count("spillway: a tensor that was to leave stays in memory:") == 1


def test_variables_that_are_gone_do_not_fill_the_share_in_memory():
    found = run("variables.py", "successive", SPILLWAY_BUDGET="20MiB")
    assert found.status == 0, found.errors
    assert_equal(found, stock("successive"))
    assert found.statistics["peak_variable_bytes"] == 0


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ("spool.read=EIO@5+", "reading from the spool failed: Input/output error"),
        ("spool.write=EIO@30+", "writing to the spool failed: Input/output error"),
    ],
)
def test_a_disk_that_fails_under_variables_is_told(faults, words):
    found = run("variables.py", "wide", SPILLWAY_BUDGET="14MiB", SPILLWAY_FAULTS=faults)
    assert found.status == 1
    assert words in found.errors
    assert "ResourceExhaustedError" in found.errors


def test_variables_that_fit_stay_where_they_are():
    found = run("variables.py", "wide", SPILLWAY_BUDGET="400MiB")
    assert_equal(found, stock("wide"))
    assert found.statistics["peak_variable_bytes"] == 0


def test_an_op_reads_what_left_under_it():
    found = run("long_op.py", "reads", SPILLWAY_BUDGET="16MiB")
    assert found.status == 0, found.errors
    expected = run("long_op.py", "reads")
    assert found.arrays.pop("left")
    assert not expected.arrays.pop("left")
    assert_equal(found, expected)
    assert found.statistics["failed_allocations"] == 0
    assert found.statistics["peak_device_bytes"] <= 16 * MIB


IN_TURN = "applies,session,keras_optimizers,scatters,held,reshaped,uninitialized"


@functools.cache
def stock_in_turn():
    found = run("in_turn.py", IN_TURN)
    assert found.status == 0, found.errors
    return found


@pytest.mark.parametrize(("mode", "budget"), [("enforce", 3), ("fuzz", 400)])
def test_every_op_on_a_stored_variable_does_what_it_does_on_another(mode, budget):
    """Optimizers' sparse updates, scatters, slices, values that are held, sizes that change."""
    found = run("in_turn.py", IN_TURN, SPILLWAY_MODE=mode, SPILLWAY_BUDGET=f"{budget}MiB")
    assert found.status == 0, found.errors
    assert_equal(found, stock_in_turn())
    statistics = found.statistics
    assert statistics["peak_device_bytes"] <= budget * MIB
    assert statistics["failed_allocations"] == 0
    assert statistics["peak_variable_bytes"] > 3 * MIB
    # Twenty times the scatters come to all of their variables in turn, which are 3 MiB. Those with
    # the furthest next use have left, so less than a third is there when its turn comes.
    assert statistics["fetched_bytes"] > 20 * 2 * MIB


def test_an_assignment_that_fails_leaves_the_old_value_or_the_new_one():
    """Of 7 MiB the value has 4: it is written aside in eight parts; the second assignment fails."""
    found = run(
        "in_turn.py", "half_written", SPILLWAY_BUDGET="7MiB", SPILLWAY_FAULTS="spool.write=EIO@10"
    )  # fmt: skip
    assert found.status == 0, found.errors
    assert found.arrays["losses"] == [1]
    least, most = found.arrays["half_written_0"].T
    assert (least == most).all(), (least, most)
    assert least[0] in (0, 1)
    assert list(least[1:]) == [2, 3]
