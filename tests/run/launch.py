# SPDX-License-Identifier: Apache-2.0
"""Runs the program of train.py, plainly or under the command, and reads what it reported."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cli.pseudo_terminal import clean_environment

TRAIN = Path(__file__).parent / "train.py"
PATIENCE = 300  # seconds


@dataclass
class Run:
    """How a program ended, and what it reported if it got so far."""

    status: int
    stderr: str
    report: dict

    def require_success(self):
        assert self.status == 0, self.stderr[-4000:]
        return self

    @property
    def results(self):
        """Returns the figures that must not depend on how the program was run."""
        return self.report["losses"], self.report["weights"]

    @property
    def last_count(self):
        return self.report["counts"][-1]


def run(words, report, **variables):
    """Runs a command line that makes `report`."""
    done = subprocess.run(
        words,
        cwd=report.parent,
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return Run(done.returncode, done.stderr, read(report))


def read(report):
    """Returns the program's report; nothing if it did not get so far."""
    return json.loads(report.read_text()) if report.exists() else {}


def train(report, *before, steps=3, depth=16, **variables):
    """Runs train.py with these words before it."""
    options = ["--steps", str(steps), "--depth", str(depth)]
    program = [sys.executable, str(TRAIN), str(report), *options]
    return run([*before, *program], report, **variables)


def require_managed(run, budget):
    """The process that trained held the budget, and had to move something for that."""
    last = run.last_count
    assert last["mode"] == "enforce" and last["budget_bytes"] == budget, last
    assert last["peak_device_bytes"] <= budget and last["overshoot_bytes"] == 0, last
    assert last["evicted_bytes"] > 0 and last["fetched_bytes"] > 0, last
