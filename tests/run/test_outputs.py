# SPDX-License-Identifier: Apache-2.0
"""Files that a program is to leave behind: tried before it starts, missed if they are not there."""

import json
import os
import subprocess
import sys

import pytest

from tests.cli.pseudo_terminal import clean_environment

STARTED = "print('started', flush=True); import torch; torch.ones(9)"
STEPS = (
    "import os, torch; model = torch.nn.Linear(4, 4); "
    "optimizer = torch.optim.SGD(model.parameters())\n"
    "for _ in range(4): model(torch.ones(1, 4)).sum().backward(); optimizer.step()\n"
)


def spillway(command, *words, code, **variables):
    return subprocess.run(
        [command, *words, "--", sys.executable, "-c", code],
        env=clean_environment({}) | variables,
        capture_output=True,
        text=True,
        timeout=200,
    )


def python(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment({}) | variables,
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--budget", "64MiB", "--stats"),
        ("record", "-o"),
        ("record", "--without-memory", "-o"),
    ],
)
@pytest.mark.parametrize("where", ["none/file.json", ".", "/proc/file.json"])
def test_a_path_is_refused_before_the_program_starts(command, tmp_path, words, where):
    path = os.path.join(tmp_path, where)
    result = spillway(command, *words, path, code=STARTED)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert result.stderr.startswith(f"spillway: {words[-1]}: ")
    assert "cannot be written" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("variable", ["SPILLWAY_STATS", "SPILLWAY_TRACE"])
def test_a_variables_path_is_refused_likewise(tmp_path, variable):
    mode = {"SPILLWAY_MODE": "record"} if variable == "SPILLWAY_TRACE" else {}
    path = str(tmp_path / "none" / "file.json")
    result = python(f"{STARTED}; print('ran')", SPILLWAY_BUDGET="64MiB", **mode, **{variable: path})
    assert (result.returncode, result.stdout) == (2, "started\n"), result.stderr
    assert f"spillway: error: {variable}: {path} cannot be written" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_variables_path_stays_where_the_program_was_started(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", "import os, torch; os.chdir('/')"],
        env=clean_environment({}) | {"SPILLWAY_BUDGET": "64MiB", "SPILLWAY_STATS": "stats.json"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "stats.json").exists()


# The folder is gone by then: no fault point is in the way of a file that is asked for so late.
LOSE = "; import shutil; shutil.rmtree(os.environ['FOLDER'])"


@pytest.mark.parametrize(
    "words, what",
    [
        (("run", "--budget", "64MiB", "--stats"), "the statistics were not written"),
        (("record", "-o"), "it cannot be written"),
    ],
)
def test_what_could_not_be_written_is_no_success(command, tmp_path, words, what):
    folder = tmp_path / "folder"
    folder.mkdir()
    result = spillway(
        command, *words, str(folder / "file.json"), code=STEPS + LOSE[2:], FOLDER=str(folder)
    )
    assert result.returncode == 1
    assert what in result.stderr
    said = result.stderr.replace(str(tmp_path), "")
    assert said.count("written") == 1, said  # not once more by the command


@pytest.mark.parametrize("words", [("record",), ("record", "--without-memory")])
@pytest.mark.parametrize("device, status", [("/dev/full", 1), ("/dev/null", 0), ("/dev/stdout", 0)])
def test_a_device_is_no_trace_that_was_written(command, words, device, status):
    result = spillway(command, *words, "--json", "-o", device, code=STEPS)
    assert "trace written" not in result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["trace"] is None
    assert result.returncode == status, result.stderr


def test_without_the_command_it_is_no_success_either(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    variables = {"FOLDER": str(folder), "SPILLWAY_STATS": str(folder / "stats.json")}
    result = python(STEPS + LOSE[2:], SPILLWAY_BUDGET="64MiB", **variables)
    assert result.returncode == 1 and "the statistics were not written" in result.stderr
    variables["FOLDER"] = str(folder)
    folder.mkdir()
    result = python(
        STEPS + LOSE[2:] + "\nraise SystemExit(7)", SPILLWAY_BUDGET="64MiB", **variables
    )
    assert result.returncode == 7


def test_a_program_without_an_op_is_told_what_a_trace_needs(command, tmp_path):
    path = str(tmp_path / "step.json")
    result = spillway(command, "record", "-o", path, code="import torch")
    assert result.returncode == 1
    assert "the program ran no op of PyTorch" in result.stderr
    for code in (STEPS.replace("range(4)", "range(1)"), STEPS):
        result = spillway(command, "record", "-o", path, code=code)
        assert result.returncode == 0 and "trace written to" in result.stderr, result.stderr


def test_a_program_that_runs_no_handlers_is_told_of(command, tmp_path):
    path = str(tmp_path / "file.json")
    for words in (("record", "-o", path), ("run", "--budget", "64MiB", "--stats", path)):
        result = spillway(command, *words, code=STEPS + "os._exit(0)")
        assert result.returncode == 1
        assert "without its handlers of exit" in result.stderr and "no op" not in result.stderr
        result = spillway(command, *words, code=STEPS + "os.kill(os.getpid(), 9)")
        assert result.returncode == -9 and "ended by SIGKILL" in result.stderr


def test_a_program_without_pytorch(command, tmp_path):
    """One true sentence, and where to look; a file that is missing for that is not said twice."""
    path = str(tmp_path / "file.json")
    result = spillway(command, "run", "--budget", "64MiB", code="pass")
    assert result.returncode == 0
    assert result.stderr == (
        "spillway: the program loaded no framework with Spillway: nothing was managed.\n"
        "  If it uses PyTorch or TensorFlow, its Python lacks Spillway: spillway doctor\n"
    )
    for words in (("run", "--budget", "64MiB", "--stats", path), ("record", "-o", path)):
        again = spillway(command, *words, code="pass")
        assert (again.returncode, again.stderr) == (1, result.stderr)


def test_enabling_without_pytorch_is_told_in_a_sentence():
    code = "import sys; sys.modules['torch'] = None; import spillway; spillway.enable('64MiB')"
    result = python(code)
    assert "spillway._native.UserError: this Python has no PyTorch" in result.stderr, result.stderr
