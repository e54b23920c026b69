# SPDX-License-Identifier: Apache-2.0
"""`spillway run` says of a TensorFlow program what its statistics say."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.pseudo_terminal import Terminal, clean_environment

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = PROGRAMS / "train.py"
COMMAND = os.environ.get("COMMAND_UNDER_TEST")


pytestmark = pytest.mark.skipif(
    not COMMAND, reason="COMMAND_UNDER_TEST does not name the command spillway"
)


def run_mlp(folder, **variables):
    return run_python(folder, PROGRAM, "mlp", folder / "result.npz", **variables)


def run_python(folder, *words, **variables):
    """The run's statistics, what it shows as JSON, and its standard error."""
    statistics = folder / "statistics.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    done = subprocess.run(
        [COMMAND, "run", "--budget", "16MiB", "--summary", "on", "--json", "--stats", statistics,
         "--", sys.executable, *words],
        env=environment | {"TF_CPP_MIN_LOG_LEVEL": "2"} | variables, capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(statistics.read_text())
    return told, json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_the_planner_is_named(tmp_path):
    told, shown, errors = run_mlp(tmp_path, SPILLWAY_PLANNER="lms:ahead=2")
    assert shown["planner"] == told["planner"]
    assert shown["planner"].startswith("lms ")
    assert f"\n  planner   {shown['planner']}\n" in errors


def test_the_summary_is_that_of_the_run(tmp_path):
    told, shown, errors = run_mlp(tmp_path)
    assert shown["planner"] == told["planner"] == "hybrid"
    assert shown["peak_device"] == told["peak_device_bytes"] <= 16 << 20
    assert shown["evicted"] == told["evicted_bytes"] > 0
    assert shown["fetched"] == told["fetched_bytes"] > 0
    assert shown["steps"] == told["steps"] > 1
    assert shown["stall_ns"] == told["stall_ns"]
    summary = errors[errors.index("spillway: enforce for") :]
    assert "of budget 16 MiB" in summary
    assert re.search(rf"^  steps +{told['steps']}, the last took ", summary, re.MULTILINE)
    assert max(map(len, summary.splitlines())) <= 80
    made = f"hybrid made {told['plans']} plan{'s' * (told['plans'] != 1)}, "
    assert any(note.startswith(made) for note in shown["notes"])
    assert f"\n  note      {made}" in summary


def test_memory_beyond_the_budget_is_shown(tmp_path):
    """An array of 32 MiB, for which a refusal would be a fault."""
    code = "import numpy, tensorflow; tensorflow.constant(numpy.ones(1 << 23, numpy.float32))"
    told, shown, errors = run_python(tmp_path, "-c", code)
    assert shown["overshoot"] == told["overshoot_bytes"] >= 16 << 20
    assert re.search(r"^  overshoot 1\d.* MiB above the budget at most$", errors, re.MULTILINE)


STATUS = re.compile(
    r"^spillway ([\d.]+ [MK]iB) / 2 MiB  .*disk ([\d.]+ [MK]iB)  moved [\d.]+ [MK]iB/step  "
    r"stall \d+ %  step (\d+)"
)


def test_the_status_line_follows_the_training(tmp_path):
    """A program that would train for hours is ended when the line has shown what it does."""
    words = [COMMAND, "run", "--budget", "2MiB", "--summary", "off", "--"]
    words += [sys.executable, PROGRAMS / "many_steps.py", str(10**8), tmp_path / "result.npz"]
    environment = clean_environment({"TF_CPP_MIN_LOG_LEVEL": "2"})
    one = Terminal(words, rows=10, columns=120, environment=environment, stderr=None)
    one.patience = 120
    steps, sizes = [], set()

    def follows():
        if found := STATUS.match(one.screen.text()[-1]):
            *held, step = found.groups()
            steps.append(int(step))
            sizes.add(tuple(held))
        return len(set(steps)) >= 4 and len(sizes) >= 2

    try:
        one.until(follows, "steps and bytes that change")
        assert one.process.poll() is None
        assert steps == sorted(steps)
        one.process.send_signal(signal.SIGTERM)
        assert one.finish() == -signal.SIGTERM
    finally:
        one.close()
