# SPDX-License-Identifier: Apache-2.0
"""A recorded step of a TensorFlow program is one that plans can be made for."""

import json
import re

import pytest

from tests.tensorflow.command import answer
from tests.tensorflow.runner import MIB, assert_equal, run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The trace of a convolutional network, and the run that wrote it."""
    path = tmp_path_factory.mktemp("recorded") / "step.json"
    return path, run("train.py", "cnn", SPILLWAY_MODE="record", SPILLWAY_TRACE=str(path))


def test_recording_changes_nothing(server, recorded):
    assert_equal(recorded[1], server.kept("cnn"))
    assert recorded[1].statistics["evicted_bytes"] == 0


def test_variables_stay_where_they_are_recorded(tmp_path):
    """They are more than a quarter of the budget, beyond which they would move elsewhere."""
    path = tmp_path / "step.json"
    found = run(
        "train.py", "saved_and_resumed", SPILLWAY_MODE="record", SPILLWAY_TRACE=str(path),
        SPILLWAY_BUDGET="25MiB",
    )  # fmt: skip
    assert found.statistics["peak_variable_bytes"] == 0
    trace = json.loads(path.read_text())
    # Of which of the two, depends on the step that is recorded: one makes the states.
    kept = ("parameter", "optimizer_state")
    assert sum(row["bytes"] for row in trace["storages"] if row["role"] in kept) > 4.5 * MIB


def test_the_simulated_peak_is_the_measured_one(recorded):
    path, found = recorded
    simulated = answer("simulate", path, "--machine", "h200")["peak"]["device"]["bytes"]
    measured = found.statistics["peak_live_bytes"]
    assert measured > 10 * MIB
    assert abs(simulated - measured) <= 0.05 * measured


def test_the_step_has_layers_durations_and_roles(recorded):
    trace = json.loads(recorded[0].read_text())
    assert trace["framework"].startswith("tensorflow 2.")
    ops = trace["ops"]
    assert sum(op["ns"] for op in ops) > 1_000_000
    convolutions = [op for op in ops if "Conv2D" in op["name"] and "Backprop" not in op["name"]]
    assert convolutions
    assert all("conv2d" in op["module"] for op in convolutions)
    assert all(op["source"].startswith("StatefulPartitionedCall/") for op in convolutions)
    # Roles of what is large: kernels, their gradients, feature maps, the batch.
    large = {storage["role"] for storage in trace["storages"] if storage["bytes"] >= 2304}
    assert {"parameter", "gradient", "activation", "input"} <= large


def test_storages_are_named_after_their_layers(recorded):
    trace = json.loads(recorded[0].read_text())
    names = [storage["name"] for storage in trace["storages"] if storage["role"] == "activation"]
    assert any(name.startswith("sequential") and "/conv2d" in name for name in names)
    assert not any(name.startswith("StatefulPartitionedCall/") for name in names)
    large = [row for row in trace["storages"] if row["bytes"] >= 2304]
    weights = [row.get("name", "") for row in large if row["role"] == "parameter"]
    assert weights
    assert all(re.fullmatch(r"sequential/(conv2d|dense)\w*/kernel", name) for name in weights)


def test_planners_are_compared_a_plan_is_explained_and_drawn(recorded, tmp_path):
    path, found = recorded
    budget = str(found.statistics["peak_live_bytes"] * 6 // 10)
    compared = answer("compare", path, "--budget", budget, "--host", "4GiB")
    steps = {point["planner"]: point.get("step_ns") for point in compared["points"]}
    assert compared["compute_ns"] <= steps["hybrid"] <= steps["lru"]
    plan = tmp_path / "plan.json"
    answer("plan", path, "--budget", budget, "--host", "4GiB", "-o", plan)
    explained = answer("explain", plan, "--trace", path)["decisions"]
    assert any("conv2d" in decision["name"] for decision in explained)
    for name in (explained[0]["name"], "sequential/conv2d_1/kernel"):
        about = answer("explain", plan, "--trace", path, "--storage", name)["decisions"]
        assert {decision["name"] for decision in about} == {name}
    page = tmp_path / "step.html"
    answer("report", plan, "--trace", path, "-o", page)
    assert "conv2d" in page.read_text()


@pytest.mark.parametrize("planner", ["hybrid", "lms"])
def test_a_plan_for_half_of_it_is_made_and_simulated(recorded, tmp_path, planner):
    path, found = recorded
    budget = found.statistics["peak_live_bytes"] // 2
    words = ("--budget", str(budget), "--host", "4GiB", "--planner", planner)
    plan = tmp_path / "plan.json"
    planned = answer("plan", path, *words, "-o", plan)
    assert 0 < planned["peak"]["device"]["bytes"] <= budget
    assert answer("simulate", path, "--plan", plan)["step_ns"] == planned["step_ns"]
