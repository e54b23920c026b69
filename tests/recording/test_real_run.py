# SPDX-License-Identifier: Apache-2.0
"""`spillway record`: the program computes what it computes, and the trace tells what ran."""

import json
import os
import re
import subprocess
import sys

import pytest
import zstandard

from tests.oracle import catalog
from tests.oracle.compare import differences
from tests.oracle.launch import run_programs

from .signatures import signature_of

COMMAND = os.environ.get("COMMAND_UNDER_TEST", "spillway")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(what the program printed, the trace)."""
    path = tmp_path_factory.mktemp("recorded") / "step.json.zst"
    done = subprocess.run(
        [COMMAND, "record", "-o", path, "--", sys.executable, "-m",
         "tests.recording.real_program"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    with zstandard.open(path, "rt") as file:
        return done.stdout, json.load(file)


@pytest.fixture(scope="module")
def trace(recorded):
    return recorded[1]


def rows(trace, **wanted):
    return [row for row in trace["storages"] if all(row.get(k) == v for k, v in wanted.items())]


# Their callers. Under a minor of PyTorch that has no table of such ops they are recorded whole.
CALLERS = {
    "aten::convolution": "aten::conv2d",
    "aten::max_pool2d_with_indices": "aten::max_pool2d",
    "aten::native_batch_norm": "aten::batch_norm",
}


def ops(trace, name):
    found = {op["name"] for op in trace["ops"]}
    name = name if name in found else CALLERS.get(name, name)
    return [op for op in trace["ops"] if op["name"] == name]


# They write running statistics.
WRITES_ARGUMENTS = {"aten::native_batch_norm", "aten::batch_norm"}

PARAMETERS = 2 * (2 + 3 * 4)  # weights and biases of stem and head, of three blocks of four


def test_nothing_is_kept_alive(recorded):
    assert "still there: 0" in recorded[0]


def test_storages_are_told_apart(trace):
    weight = rows(trace, name="blocks.1.conv1.weight")[0]
    assert weight["role"] == "parameter"
    assert weight["persistent"] is True
    assert weight["bytes"] == 4 * 16 * 16 * 9
    momentum = rows(trace, role="optimizer_state")
    assert len(momentum) == PARAMETERS
    assert all(row["name"].endswith(".momentum_buffer") for row in momentum)
    assert len(rows(trace, role="input", bytes=4 * 4 * 3 * 16 * 16)) == 1


def test_gradients_continue_as_those_of_the_next_step(trace):
    continuing = [row for row in rows(trace, role="gradient") if "continues" in row]
    assert len(continuing) == PARAMETERS
    for row in continuing:
        other = trace["storages"][row["continues"]]
        assert (other["name"], other["bytes"]) == (row["name"], row["bytes"])


def test_ops_know_module_and_line(trace):
    forward = ops(trace, "aten::convolution")
    assert [op["module"] for op in forward[:3]] == ["stem", "blocks.0.conv1", "blocks.0.conv2"]
    assert "networks.py:" in forward[0]["source"]
    backward = ops(trace, "aten::convolution_backward")
    assert [op["module"] for op in backward][-1] == "stem"


def test_ops_know_what_they_cost(trace):
    stem = ops(trace, "aten::convolution")[0]
    assert stem["flop"] == 2 * 4 * 16 * 16 * 16 * 3 * 9
    assert stem["bytes"] >= 4 * (4 * 3 * 256 + 16 * 3 * 9 + 4 * 16 * 256)
    assert stem["arithmetic"] == "float32"
    assert all(op["ns"] > 0 for op in trace["ops"])


def test_ops_have_the_signatures_that_a_plan_finds_its_place_by(trace):
    assert all("signature" in op for op in trace["ops"])
    expected = signature_of("aten::relu", 4 * 16 * 16 * 16)
    assert {op["signature"] for op in ops(trace, "aten::relu")} == {expected}


def test_pure_ops_can_be_run_again(trace):
    def recomputable(name):
        return {op.get("recomputable", False) for op in ops(trace, name)}

    assert recomputable("aten::convolution") == {True}
    assert recomputable("aten::max_pool2d_with_indices") == {True}
    assert recomputable("aten::native_batch_norm") == {False}  # writes running statistics
    assert recomputable("aten::relu_") == {False}  # in place
    assert recomputable("aten::randn") == {False}


def test_views_are_told_and_not_written(trace):
    views = [op for op in trace["ops"] if "views" in op and "creates" not in op]
    assert views
    for op in views:
        assert set(op["views"]) <= set(op["reads"])
        assert "writes" not in op
        assert op["bytes"] == 0


# Whatever shapes an op gives its inputs on the way, it is those it writes that change.
def test_only_what_an_op_changes_is_written(trace):
    for op in trace["ops"]:
        changed = set(op.get("writes", [])) - set(op.get("creates", []))
        in_place = op["name"].split(".")[0].endswith("_") or op["name"] in WRITES_ARGUMENTS
        assert in_place or not changed, op


def test_in_place_ops_read_what_they_change(trace):
    for op in ops(trace, "aten::add_.Tensor"):
        assert set(op["writes"]) <= set(op["reads"]), op


def test_one_program_has_one_peak_and_one_floor(tmp_path):
    """In the summary, the statistics, and what is said of the trace: the same words and bytes."""
    trace, statistics = tmp_path / "step.json", tmp_path / "statistics.json"
    done = subprocess.run(
        [COMMAND, "record", "--summary", "on", "--stats", statistics, "-o", trace, "--",
         sys.executable, "-m", "tests.recording.real_program"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    told = json.loads(statistics.read_text())
    (summary,) = re.findall(r"peak (.*), floor (.*)\n", done.stderr)
    words = [COMMAND, "trace", "stats", trace]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    of_trace = [re.search(rf"^{word} +(.*)$", text, re.MULTILINE)[1] for word in ("peak", "floor")]
    assert of_trace == list(summary)
    answer = json.loads(subprocess.run([*words, "--json"], capture_output=True, check=True).stdout)
    assert answer["peak"] == told["peak_device_bytes"] > answer["step_peak"] > 0
    assert answer["floor"] == told["floor_bytes"] > 0


def test_recording_changes_no_bit(tmp_path):
    cases = [(program.name, program.optimizers[0]) for program in catalog.PROGRAMS]
    plain = run_programs(cases, "tiny", {}, tmp_path).require_complete()
    path = tmp_path / "step.json"
    settings = {"SPILLWAY_MODE": "record", "SPILLWAY_TRACE": str(path)}
    traced = run_programs(cases, "tiny", settings, tmp_path).require_complete()
    assert plain.runs.keys() == traced.runs.keys()
    changed = {
        case: found
        for case, run in plain.runs.items()
        if (found := differences(run, traced.runs[case]))
    }
    assert not changed
    assert len(json.loads(path.read_text())["ops"]) > 10
