# SPDX-License-Identifier: Apache-2.0
"""`spillway doctor`, beside interpreters that answer what a test wants to hear."""

import json
import os
import re

import pytest

READY = {
    "executable": "/usr/bin/python3",
    "version": "3.12.1",
    "torch": "2.15.0",
    "spillway": "0.1.0",
    "has_adapter": True,
}

INSTALL = ["pip install -r requirements/build.txt", "pip install --no-build-isolation ."]


@pytest.fixture
def path_with(tmp_path_factory):
    """A PATH whose python3 knows what is given."""

    def make(**changes):
        folder = tmp_path_factory.mktemp("bin")
        python = folder / "python3"
        python.write_text(f"#!/bin/sh\necho '{json.dumps(READY | changes)}'\n")
        python.chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    return make


@pytest.fixture
def ready(path_with):
    return path_with()


@pytest.mark.parametrize(
    "missing, failed",
    [
        ({"torch": "", "spillway": "", "has_adapter": False}, 2),
        ({"torch": ""}, 1),
        ({"torch": "2.9.1"}, 1),
        ({"spillway": "", "has_adapter": False}, 1),
        ({"has_adapter": False}, 1),
    ],
)
def test_what_cannot_train_is_told_so(spillway, path_with, tmp_path, missing, failed):
    result = spillway("doctor", "--spool-dir", str(tmp_path), PATH=path_with(**missing))
    assert result.returncode == 1, result.stdout
    assert f"cannot work here: {failed} failed." in result.stdout.splitlines()[-1]
    assert "works here" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(tmp_path))
    answer = spillway("doctor", "--spool-dir", str(tmp_path), "--json", PATH=path_with(**missing))
    assert json.loads(answer.stdout)["works"] is False


def test_tensorflow_alone_is_enough(spillway, path_with, tmp_path):
    alone = {"torch": "", "has_adapter": False, "tensorflow": "2.21.0", "has_plugin": True}
    result = spillway("doctor", "--spool-dir", str(tmp_path), PATH=path_with(**alone))
    assert result.returncode == 0, result.stdout
    assert "FAILED" not in result.stdout
    assert re.search(r"^tensorflow +ok +2\.21\.0$", result.stdout, re.MULTILINE)


def test_nobody_is_sent_to_an_index_for_spillway(spillway, path_with, tmp_path):
    """The name may be anybody's there. What is to be copied stands in lines of its own."""
    for missing in ({"spillway": "", "has_adapter": False}, {"has_adapter": False}):
        words = ("doctor", "--spool-dir", str(tmp_path))
        told = json.loads(spillway(*words, "--json", PATH=path_with(**missing)).stdout)
        (remedy,) = [f["remedy"] for f in told["findings"] if f["topic"] == "package"]
        commands = remedy.splitlines()[1:]
        assert commands == INSTALL
        shown = spillway(*words, PATH=path_with(**missing)).stdout
        assert all(f" {command}\n" in shown for command in commands), shown


def test_a_directory_that_is_not_there(spillway, ready):
    result = spillway("doctor", "--spool-dir", "/no/such/directory", PATH=ready)
    assert result.returncode == 1
    assert "FAILED" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_doctor_measures(spillway, tmp_path, ready):
    result = spillway("doctor", "--spool-dir", str(tmp_path), PATH=ready)
    assert result.returncode == 0, result.stdout
    for topic in (
        "kernel",
        "python",
        "memory",
        "cgroup",
        "swap",
        "huge pages",
        "mappings",
        "io_uring",
        "free space",
        "disk write",
        "disk read",
    ):
        assert topic in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_measured_machine_can_be_planned_for(spillway, tmp_path, ready):
    machine = tmp_path / "here.json"
    result = spillway("doctor", "--spool-dir", str(tmp_path), "--save", str(machine), PATH=ready)
    assert result.returncode == 0, result.stdout
    assert "GFLOP/s" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(machine))
    measured = json.loads(machine.read_text())
    assert measured["name"] == "here"
    assert "measured" in measured["device"]["arithmetic"]["float32"]["source"]
    assert measured["links"]["host-to-disk"]["bytes_per_second"] > 0
    trace = tmp_path / "step.json"
    trace.write_text(
        json.dumps(
            {
                "spillway_trace": 2,
                "storages": [{"id": 0, "bytes": 1 << 20}],
                "ops": [
                    {"name": "make", "flop": 1 << 30, "creates": [0], "writes": [0]},
                    {"name": "use", "flop": 1 << 30, "reads": [0], "frees": [0]},
                ],
                "timed": False,
            }
        )
    )
    plan = str(tmp_path / "plan.json")
    planned = spillway("plan", str(trace), "--machine", str(machine), "--json", "-o", plan)
    assert planned.returncode == 0, planned.stderr
    answer = json.loads(planned.stdout)
    assert answer["machine"] == "here"
    rate = measured["device"]["arithmetic"]["float32"]["flop_per_second"]
    assert answer["compute_ns"] == pytest.approx(2 * 2**30 / rate * 1e9, rel=0.01)
    # The plan says which file that was.
    simulated = spillway("simulate", str(trace), "--plan", plan, "--json")
    assert simulated.returncode == 0, simulated.stderr
    assert json.loads(simulated.stdout)["step_ns"] == answer["step_ns"]


def test_a_machine_file_that_cannot_be_written_takes_no_finding_away(spillway, tmp_path, ready):
    words = ("doctor", "--spool-dir", str(tmp_path), "--save", "/no/such/folder/here.json")
    result = spillway(*words, PATH=ready)
    assert (result.returncode, result.stderr) == (2, "")
    assert "disk write" in result.stdout
    assert re.search(r"machine +FAILED +/no/such/folder/here.json cannot be written", result.stdout)
    assert "works here; the machine's file was not written." in result.stdout
    result = spillway(*words, "--json", PATH=ready)
    assert result.returncode == 2
    answer = json.loads(result.stdout)
    assert answer["works"] is True
    assert [f["verdict"] for f in answer["findings"] if f["topic"] == "machine"] == ["failed"]
