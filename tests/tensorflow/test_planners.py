# SPDX-License-Identifier: Apache-2.0
"""Under every planner TensorFlow programs train to the same bits, and plans are carried out."""

import itertools
import subprocess
import sys

import pytest

from tests.tensorflow.runner import MIB, PROGRAMS, assert_equal, environment, run
from tests.tensorflow.selection import selected

PLANNERS = ("hybrid", "swap-critical-path", "lms", "partitioned", "superneurons")
# What only orders ops, at its strongest, beside the planners as they are.
ORDERING = ("partitioned:partition-size=5", "lms:serialise-levels=on,threshold=4,ahead=3")
BUDGETS = {"cnn": 40, "resnet": 24, "cnn_in_loop": 32}
IN_FUZZ = ("cnn", "transformer", "gan", "session")


@pytest.mark.parametrize(
    ("planner", "program"), selected(itertools.product(PLANNERS, BUDGETS), in_turn=5)
)
def test_a_planned_program_keeps_its_budget_and_its_bits(server, program, planner):
    budget = f"{BUDGETS[program]}MiB"
    found = server.train(program, SPILLWAY_BUDGET=budget, SPILLWAY_PLANNER=planner)
    assert found.status == 0, found.errors
    assert_equal(found, server.kept(program))
    statistics = found.statistics
    assert statistics["peak_device_bytes"] <= BUDGETS[program] * MIB
    assert statistics["failed_allocations"] == 0
    assert statistics["planner"].startswith(planner)
    assert statistics["evicted_bytes"] > 0
    if program != "cnn_in_loop":  # all of which is in a loop, where the rules decide
        assert statistics["plans"] > 0, statistics["no_plan_because"]


@pytest.mark.parametrize(
    ("planner", "program"),
    selected(itertools.product((*PLANNERS[:1], "none", *ORDERING), IN_FUZZ), in_turn=4),
)
def test_what_a_planner_puts_into_the_graph_changes_no_bit_in_fuzz(server, program, planner):
    found = server.train(program, SPILLWAY_MODE="fuzz", SPILLWAY_PLANNER=planner)
    assert found.status == 0, found.errors
    assert_equal(found, server.kept(program))
    assert found.statistics["fetched_bytes"] > 0


@pytest.mark.parametrize("planner", ["hybrid", ORDERING[0]])
def test_what_the_last_step_changes_before_it_finds_no_data_is_as_in_stock(server, planner):
    found = server.train("until_no_data", SPILLWAY_MODE="fuzz", SPILLWAY_PLANNER=planner)
    assert found.status == 0, found.errors
    assert_equal(found, server.kept("until_no_data"))


def test_swaps_that_hold_their_thread_wait_for_no_clock(server):
    """Of one thread for ops, which a swap-in that waited for a tick would keep from the tick."""
    found = run(
        "train.py", "cnn", timeout=300, SPILLWAY_BUDGET="40MiB", SPILLWAY_PLANNER="lms",
        SPILLWAY_TF_ASYNC="off", TF_NUM_INTEROP_THREADS="1",
    )  # fmt: skip
    assert found.status == 0, found.errors
    assert_equal(found, server.kept("cnn"))
    assert found.statistics["plans"] > 0, found.statistics["no_plan_because"]
    assert found.statistics["fetched_bytes"] > 0
    assert found.statistics["peak_device_bytes"] <= 40 * MIB


def test_swap_ins_are_held_back_in_every_step():
    """TensorFlow draws the numbers of steps at random: clocks of 1,024 runs are kept."""
    steps = "1300"
    found = run("many_steps.py", steps, SPILLWAY_BUDGET="2MiB", SPILLWAY_PLANNER="lms")
    assert found.status == 0, found.errors
    assert_equal(found, run("many_steps.py", steps))
    assert found.statistics["failed_allocations"] == 0
    assert found.statistics["plans"] > 0
    assert found.statistics["peak_device_bytes"] <= 2 * MIB


@pytest.mark.parametrize("branch", selected(["first", "second", "both"], in_turn=1))
def test_steps_in_branches_are_counted_and_planned(branch):
    found = run("branches.py", branch, SPILLWAY_BUDGET="7MiB")
    assert found.status == 0, found.errors
    assert_equal(found, run("branches.py", branch))
    statistics = found.statistics
    assert statistics["steps"] == 16
    assert statistics["plans"] > 0
    assert statistics["evicted_bytes"] > 0
    assert statistics["peak_device_bytes"] <= 7 * MIB


@pytest.mark.parametrize("step", selected(["graph", "function"], in_turn=1))
def test_a_session_that_runs_ops_inline_waits_for_no_copy_in_vain(step):
    stock = run("inline_session.py", step)
    for variables in ({"SPILLWAY_BUDGET": "7MiB"}, {"SPILLWAY_MODE": "fuzz"}):
        found = run("inline_session.py", step, **variables)
        assert found.status == 0, found.errors
        assert_equal(found, stock)
        assert found.statistics["fetched_bytes"] > 0
        assert found.statistics["failed_allocations"] == 0


DELAY_MS = 20  # of a copy
OFF = ":variables-on-host=off"


@pytest.mark.parametrize(("mode", "waited_for"), [("0", None), ("1", "write"), ("2", "read")])
def test_swaps_hold_their_threads_as_the_sync_mode_says(server, mode, waited_for):
    """By the delay of each copy longer where copies of the kind that they wait for are slow."""
    blocked = {}
    planner = f"lms:sync-mode={mode},tune=off,threshold=8"
    for slow in ("write", "read"):
        found = run(
            "train.py", "mlp", SPILLWAY_BUDGET="4GiB", SPILLWAY_MODE="fuzz",
            SPILLWAY_PLANNER=planner, SPILLWAY_FAULTS=f"spool.{slow}=delay:{DELAY_MS}ms@1+",
        )  # fmt: skip
        assert found.status == 0, found.errors
        assert_equal(found, server.kept("mlp"))
        statistics = found.statistics
        blocked[slow] = statistics["blocked_ns"]
    if waited_for is None:
        assert blocked == {"write": 0, "read": 0}
        return
    copies = statistics["pairs_used"] * statistics["steps"]
    longer = blocked.pop(waited_for) - sum(blocked.values())
    assert longer >= copies * DELAY_MS * 1_000_000


def test_partitions_have_all_variables_in_the_store(server):
    """As many as leave under a budget a quarter of which they pass, though all have room."""
    stored = {}
    for option, budget in (("", "1GiB"), (OFF, "1GiB"), (OFF, "12MiB")):
        found = server.train("mlp", SPILLWAY_BUDGET=budget, SPILLWAY_PLANNER=f"partitioned{option}")
        assert found.status == 0, found.errors
        assert_equal(found, server.kept("mlp"))
        stored[option, budget] = found.statistics["peak_variable_bytes"]
    assert stored["", "1GiB"] >= stored[OFF, "12MiB"] > 0
    assert stored[OFF, "1GiB"] == 0


def test_a_budget_for_all_lets_everything_pass(server):
    found = server.train("cnn", SPILLWAY_BUDGET="1GiB", SPILLWAY_PLANNER="hybrid")
    assert_equal(found, server.kept("cnn"))
    assert found.statistics["plans"] > 0
    assert found.statistics["pairs_copying"] == 0


def test_the_next_run_begins_with_the_plan(server, tmp_path):
    settings = {"SPILLWAY_BUDGET": "40MiB", "SPILLWAY_PLANNER": "hybrid"}
    settings["SPILLWAY_PLAN_CACHE"] = str(tmp_path)
    for kept in (0, 1):
        found = server.train("cnn", **settings)
        assert_equal(found, server.kept("cnn"))
        assert found.statistics["plans_kept"] >= kept
    assert found.statistics["peak_device_bytes"] <= 40 * MIB


def test_a_plan_cache_that_cannot_be_written_is_said_once_at_the_end(tmp_path):
    folder = tmp_path / "file" / "plans"
    folder.parent.write_text("no folder")
    found = run(
        "train.py", "cnn", SPILLWAY_BUDGET="40MiB", SPILLWAY_PLANNER="lms",
        SPILLWAY_PLAN_CACHE=str(folder),
    )  # fmt: skip
    assert found.status == 0, found.errors
    assert found.statistics["plans"] > 0
    assert found.errors.count("spillway: a plan was not kept for the next run") == 1
    assert f"{folder}/tensorflow-" in found.errors
    assert "Not a directory" in found.errors


def test_plans_are_kept_where_the_program_began(tmp_path):
    """A program may change its directory before its graph is there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = PROGRAMS / "train.py"
    code = f"""
import os, runpy, sys, tensorflow
os.chdir({str(elsewhere)!r})
sys.path.insert(0, {str(PROGRAMS)!r})
sys.argv = ["train.py", "cnn", "arrays.npz"]
runpy.run_path({str(script)!r}, run_name="__main__")
"""
    variables = environment(
        SPILLWAY_BUDGET="40MiB", SPILLWAY_PLANNER="lms", SPILLWAY_PLAN_CACHE="plans"
    )
    subprocess.run([sys.executable, "-c", code], env=variables, cwd=tmp_path, check=True)
    assert list((tmp_path / "plans").glob("tensorflow-*.json"))
    assert not (elsewhere / "plans").exists()


def test_the_summary_says_what_was_planned():
    found = run(
        "train.py", "cnn", SPILLWAY_BUDGET="40MiB", SPILLWAY_PLANNER="lms", SPILLWAY_SUMMARY="1"
    )
    assert "spillway: lms made" in found.errors
    assert "predicted peak" in found.errors


def test_what_is_no_planner_ends_the_program():
    found = run("train.py", "cnn", SPILLWAY_BUDGET="40MiB", SPILLWAY_PLANNER="lsm")
    assert found.status == 2
    assert 'Did you mean "lms"' in found.errors
