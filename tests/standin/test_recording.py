# SPDX-License-Identifier: Apache-2.0
"""`spillway record` of a program on the stand-in card: a step with the card's own durations, which
the planners read.
"""

import json
import os
import statistics
import subprocess

import pytest
import zstandard

from tests.oracle import judge
from tests.oracle.launch import MIB, start
from tests.standin import needed

pytestmark = needed.STAND_IN
COMMAND = os.environ.get("COMMAND_UNDER_TEST", "spillway")
PROGRAM = ("wide_mlp", "sgd")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(the run, the path of its trace, the trace)."""
    folder = tmp_path_factory.mktemp("recorded")
    path = folder / "step.json.zst"
    child = start(
        "tests.standin.train",
        [":".join(PROGRAM)],
        {
            "SPILLWAY_MODE": "record",
            "SPILLWAY_BUDGET": "100%",
            "SPILLWAY_TRACE": str(path),
            "STAND_IN_DELAY_US": "0",
        },
        folder,
        through=["tests/standin/run.py"],
    )
    child.require_complete()
    with zstandard.open(path, "rt") as file:
        return child, path, json.load(file)


def test_recording_changes_no_bit(recorded, tmp_path):
    child, _, _ = recorded
    alone = start(
        "tests.standin.train", [":".join(PROGRAM)], {}, tmp_path, through=["tests/standin/run.py"]
    ).require_complete()
    judge.same_bits(alone.runs[PROGRAM], child.runs[PROGRAM], child)


def test_ops_take_what_they_take_on_the_card(recorded):
    """The program's thread only launches, however large the op."""
    _, _, trace = recorded
    products = [op["ns"] for op in trace["ops"] if op["name"] in ("aten::mm", "aten::addmm")]
    views = [op["ns"] for op in trace["ops"] if op["name"] in ("aten::t", "aten::view")]
    assert statistics.median(products) > 100 * statistics.median(views)
    assert sum(products) > sum(op["ns"] for op in trace["ops"]) / 4


def test_storages_of_the_card_have_their_purpose(recorded):
    _, _, trace = recorded
    roles = {row["role"] for row in trace["storages"]}
    assert {"parameter", "gradient"} <= roles
    # Smaller ones lie in PyTorch's own pool.
    assert min(row["bytes"] for row in trace["storages"]) > MIB


@pytest.fixture(scope="module")
def planned(recorded, tmp_path_factory):
    """(the plan's path, what `spillway plan` told)."""
    _, path, _ = recorded
    plan = tmp_path_factory.mktemp("planned") / "plan.json"
    told = _spillway("plan", path, "--budget", "60%", "--host", "1GiB", "--recorded-times",
                     "-o", plan, "--json")  # fmt: skip
    return plan, told


def test_the_step_is_planned_and_simulated(recorded, planned):
    _, path, trace = recorded
    plan, told = planned
    assert told["recorded_on"] == trace["machine"]
    assert told["compute_ns"] == sum(op.get("ns", 0) for op in trace["ops"])
    assert told["evictions"] > 0
    assert told["peak"]["device"]["bytes"] <= told["budgets"]["device"]
    simulated = _spillway("simulate", path, "--plan", plan, "--json")
    assert simulated["step_ns"] == told["step_ns"]


def test_the_plan_is_explained(recorded, planned):
    _, _, trace = recorded
    explained = _spillway("explain", planned[0], "--recorded-times", "--json")
    known = {row["id"] for row in trace["storages"]}
    moved = {decision["storage"] for decision in explained["decisions"]}
    assert moved
    assert moved <= known


def test_the_step_and_its_plan_are_drawn(recorded, planned, tmp_path):
    _, path, trace = recorded
    for of in (path, planned[0]):
        page = tmp_path / f"{of.stem}.html"
        _spillway("report", of, "-o", page, "--json")
        assert trace["machine"] in page.read_text(encoding="utf-8")


def _spillway(*words):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
