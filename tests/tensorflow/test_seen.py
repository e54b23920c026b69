# SPDX-License-Identifier: Apache-2.0
"""`spillway run` says of a TensorFlow program what its statistics say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "train.py"
COMMAND = os.environ.get("COMMAND_UNDER_TEST")


@pytest.mark.skipif(not COMMAND, reason="COMMAND_UNDER_TEST does not name the command spillway")
def test_the_summary_is_that_of_the_run(tmp_path):
    statistics = tmp_path / "statistics.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    done = subprocess.run(
        [COMMAND, "run", "--budget", "16MiB", "--summary", "on", "--json", "--stats", statistics,
         "--", sys.executable, PROGRAM, "mlp", tmp_path / "result.npz"],
        env=environment | {"TF_CPP_MIN_LOG_LEVEL": "2"}, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(statistics.read_text())
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["peak_device"] == told["peak_device_bytes"] <= 16 << 20
    assert shown["evicted"] == told["evicted_bytes"] > 0
    assert shown["fetched"] == told["fetched_bytes"] > 0
    assert shown["steps"] == told["steps"] > 1
    assert shown["stall_ns"] == told["stall_ns"]
    summary = done.stderr[done.stderr.index("spillway: enforce for") :]
    assert "of budget 16 MiB" in summary
    assert re.search(rf"^  steps +{told['steps']}, the last took ", summary, re.MULTILINE)
    assert max(map(len, summary.splitlines())) <= 80
