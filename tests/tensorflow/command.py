# SPDX-License-Identifier: Apache-2.0
"""Runs the command `spillway` as a person does."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.tensorflow.runner import environment

COMMAND = os.environ.get("COMMAND_UNDER_TEST") or str(
    Path(__file__).parents[2] / "build" / "release" / "tools" / "spillway"
)


def spillway(*words):
    """What it printed, and its exit status."""
    # A report is drawn by the python3 on PATH, which is to be this one.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [COMMAND, *map(str, words)], capture_output=True, text=True, timeout=600,
        env=environment(PATH=path),
    )  # fmt: skip


def answer(*words):
    done = spillway(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
