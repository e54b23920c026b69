# SPDX-License-Identifier: Apache-2.0
"""Which of Spillway's means this machine has, as `spillway doctor` says, and runs without them."""

import ctypes
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

PR_SET_THP_DISABLE = 41


@functools.cache
def _doctor():
    beside = Path(sys.executable).parent / "spillway"
    command = os.environ.get("COMMAND_UNDER_TEST") or (beside if beside.exists() else "spillway")
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    done = subprocess.run(
        [command, "doctor", "--json"], env=env, capture_output=True, text=True, check=False
    )
    findings = json.loads(done.stdout)["findings"]
    return {finding["topic"]: finding["what"] for finding in findings}


def has_page_pool():
    return _doctor()["pages"].startswith("page pool")


def has_io_uring():
    return _doctor()["io_uring"].startswith("available")


def without_huge_pages():
    """Called in a child before it becomes another program: the page pool needs huge pages."""
    if ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_THP_DISABLE) failed")
