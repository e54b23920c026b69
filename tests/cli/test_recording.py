# SPDX-License-Identifier: Apache-2.0
"""`spillway record --without-memory`: what reaches the program, and what its end means."""

import os
import shutil
import sys

import pytest

from tests.cli.pseudo_terminal import program

VARIABLES = (
    "SPILLWAY_WITHOUT_MEMORY",
    "SPILLWAY_MACHINE",
    "SPILLWAY_ASSUME",
    "SPILLWAY_MODE",
    "SPILLWAY_TRACE",
    "SPILLWAY_BUDGET",
)
SHOWN = [f"variable={name}" for name in VARIABLES]


def test_the_program_is_told_where_and_how(spillway, tmp_path):
    path = tmp_path / "step.json"
    result = spillway(
        "record", "--without-memory", "-o", str(path), "--machine", "h200", "--assume", "0.5",
        "--", *program(*SHOWN), SPILLWAY_BUDGET="1GiB", SPILLWAY_MODE="enforce",
    )  # fmt: skip
    told = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert told["SPILLWAY_WITHOUT_MEMORY"] == str(path)
    assert told["SPILLWAY_MACHINE"] == "h200"
    assert told["SPILLWAY_ASSUME"] == "0.5"
    # Nothing is managed, whatever the environment says.
    for name in ("SPILLWAY_MODE", "SPILLWAY_TRACE", "SPILLWAY_BUDGET"):
        assert told[name] in ("", "None"), told


def test_relative_paths_stay_where_the_command_was_started(spillway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machine = os.path.join(os.path.dirname(__file__), "../../machines/m40.json")
    shutil.copy(machine, tmp_path / "mine.json")
    result = spillway(
        "record", "--without-memory", "-o", "step.json", "--machine", "mine.json",
        "--", *program(*SHOWN),
    )  # fmt: skip
    told = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert told["SPILLWAY_WITHOUT_MEMORY"] == str(tmp_path / "step.json")
    assert told["SPILLWAY_MACHINE"] == str(tmp_path / "mine.json")


def record(spillway, path, source):
    return spillway(
        "record", "--without-memory", "-o", str(path), "--", sys.executable, "-c", source
    )


def test_a_program_that_records_nothing_is_status_1(spillway, tmp_path):
    path = tmp_path / "step.json"
    path.write_text("from an earlier run")
    result = record(spillway, path, "pass")
    assert result.returncode == 1
    assert "no trace was written" in result.stderr
    assert path.read_text() == "from an earlier run"


def test_a_trace_that_was_written_is_status_0(spillway, tmp_path):
    path = tmp_path / "step.json"
    path.write_text("from an earlier run")
    result = record(spillway, path, f"open({str(path)!r}, 'w').write('a new one')")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_programs_own_failure_is_passed_on(spillway, tmp_path):
    result = record(spillway, tmp_path / "step.json", "raise SystemExit(7)")
    assert (result.returncode, result.stderr) == (7, "")


@pytest.mark.parametrize(
    "words, text",
    [
        (("--without-memory", "-o", "x", "--machine", "h2000"), 'Did you mean "h200"?'),
        (("--without-memory", "-o", "x", "--machine", "./no.json"), "no.json"),
        (("--without-memory", "-o", "x", "--budget", "1GiB"), "--budget does not go with"),
        (("--without-memory",), "-o FILE"),
        (("-o", "x", "--machine", "h200"), "--without-memory"),
        (("-o", "x", "--assume", "0"), "--without-memory"),
    ],
)
def test_mistakes_are_found_before_the_program_starts(spillway, words, text):
    result = spillway("record", *words, "--", *program("print=started"))
    assert (result.returncode, result.stdout) == (2, "")
    assert text in result.stderr


def test_a_long_recording_says_so_on_a_terminal(terminal, tmp_path):
    words = ("record", "--without-memory", "-o", str(tmp_path / "step.json"))
    one = terminal(*words, "--", *program("print=hello", "sleep=1.5", "print=bye"))
    one.until(lambda: "spillway: recording without memory, " in one.screen.text()[-1], "bottom row")
    assert one.finish() == 1
    assert one.screen.region() == (1, one.screen.rows)
    assert not any("recording without memory" in row for row in one.screen.history())
    assert one.screen.text()[:2] == ["hello", "bye"]


@pytest.mark.parametrize("words, changes", [(("--status", "off"), {}), ((), {"TERM": "dumb"})])
def test_a_recording_shows_nothing_where_it_is_not_wanted(terminal, tmp_path, words, changes):
    one = terminal(
        "record", "--without-memory", "-o", str(tmp_path / "step.json"), *words,
        "--", *program("sleep=1.2"), **changes,
    )  # fmt: skip
    assert one.finish() == 1
    assert "recording without memory" not in one.raw
