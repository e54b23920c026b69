# SPDX-License-Identifier: Apache-2.0
"""Unchanged TensorFlow programs train to the same bits within their budget, and pass what fits."""

import pytest

from tests.tensorflow.runner import MIB, assert_equal, run


# Between what the program needs with everything copied and what it needs alone.
@pytest.mark.parametrize(
    ("program", "budget", "planner"),
    [("mlp", 16, None), ("cnn", 40, None), ("cnn", 40, "none"), ("cnn_in_loop", 32, None)],
)
def test_a_budget_below_the_need_holds(server, program, budget, planner):
    # No tensor is so large that it may leave: what is live at most is what the program needs,
    # however its threads take turns. The peak of a roomy run falls where copies happen to be quick.
    alone = server.kept(program, SPILLWAY_BUDGET="1GiB", SPILLWAY_MIN_SIZE="1GiB").statistics
    assert alone["evicted_bytes"] == 0
    assert alone["peak_live_bytes"] > budget * MIB
    roomy = server.kept(program, SPILLWAY_BUDGET="1GiB").statistics
    named = {"SPILLWAY_PLANNER": planner} if planner else {}
    found = run("train.py", program, SPILLWAY_BUDGET=f"{budget}MiB", **named)
    assert_equal(found, server.kept(program))
    statistics = found.statistics
    assert statistics["planner"].split(" ")[0] == ("" if planner else "hybrid")
    # A loop's tensors are in no plan.
    assert (statistics["plans"] > 0) == (not planner and "loop" not in program)
    assert statistics["plan_changes"] > 0
    assert statistics["budget_bytes"] == budget * MIB
    assert statistics["peak_device_bytes"] <= budget * MIB
    assert statistics["failed_allocations"] == 0
    # It copied in every step, where the roomy one copied in its first ones.
    assert statistics["evicted_bytes"] > roomy["evicted_bytes"]


def test_a_sum_of_many_tensors_needs_few_of_them_at_once():
    """The gradient of a weight of 1 MiB that is used 40 times."""
    alone = run("long_sum.py", "40")
    found = run("long_sum.py", "40", SPILLWAY_BUDGET="24MiB")
    assert found.status == 0, found.errors
    assert_equal(found, alone)
    assert found.statistics["peak_device_bytes"] <= 24 * MIB


def test_small_tensors_leave_where_memory_runs_out(server):
    """Nearly all tensors of this network are below the smallest size that leaves else."""
    budget = 5
    alone = server.kept("lstm", SPILLWAY_BUDGET="1GiB", SPILLWAY_MIN_SIZE="1GiB").statistics
    assert alone["peak_live_bytes"] > 1.2 * budget * MIB
    found = run("train.py", "lstm", SPILLWAY_BUDGET=f"{budget}MiB")
    assert_equal(found, server.kept("lstm"))
    assert found.statistics["peak_device_bytes"] <= budget * MIB
    assert found.statistics["late_leaves"] > 0
    asked = run("train.py", "lstm", SPILLWAY_BUDGET=f"{budget}MiB", SPILLWAY_MIN_SIZE="64KiB")
    assert asked.status != 0
    assert "a tensor does not fit into the budget" in asked.errors


def test_what_moves_in_a_step_is_counted(server):
    """In verify every pair copies out and in, in every step, and both batches are as large."""
    found = server.kept("mlp", SPILLWAY_BUDGET="1GiB", SPILLWAY_MODE="verify")
    assert_equal(found, server.kept("mlp"))
    told = found.statistics
    moved = told["evicted_bytes"] + told["fetched_bytes"]
    assert told["last_step_moved_bytes"] * told["steps"] == moved > 0
    assert 0 < told["last_step_ns"] * (told["steps"] - 1) < told["elapsed_ns"]


def test_the_turns_of_a_loop_are_one_step(server):
    """Three epochs of four batches, of which three and then one are run at once."""
    told = server.kept("cnn_in_loop", SPILLWAY_BUDGET="1GiB").statistics
    assert told["steps"] == 6


def test_what_fits_passes_after_the_first_steps(server):
    found = server.kept("mlp", SPILLWAY_BUDGET="1GiB")
    assert_equal(found, server.kept("mlp"))
    assert found.statistics["pairs_used"] == found.statistics["pairs_passing"] > 0


def test_host_memory_holds_what_left_where_it_has_a_budget(server):
    found = run(
        "train.py", "mlp", SPILLWAY_BUDGET="16MiB", SPILLWAY_HOST_BUDGET="1GiB",
        SPILLWAY_DISK_BUDGET="1MiB",
    )  # fmt: skip
    assert_equal(found, server.kept("mlp"))
    assert found.statistics["fetched_bytes"] > 0


@pytest.mark.parametrize(
    "variables",
    [{"SPILLWAY_BUDGET": "16MiB"}, {"SPILLWAY_BUDGET": "4GiB", "SPILLWAY_MODE": "fuzz"}],
    ids=["enforce", "fuzz"],
)
def test_swaps_that_hold_their_thread(server, variables):
    """Each swap-in of what had left waits out the delay of its read, one after the other or not."""
    delay_ms = 10
    found = run(
        "train.py", "mlp", SPILLWAY_TF_ASYNC="off",
        SPILLWAY_FAULTS=f"spool.read=delay:{delay_ms}ms@1+", **variables,
    )  # fmt: skip
    assert_equal(found, server.kept("mlp"))
    statistics = found.statistics
    assert statistics["failed_allocations"] == 0
    assert statistics["pairs_used"] > 0
    assert statistics["stall_ns"] >= statistics["pairs_used"] * delay_ms * 1_000_000
