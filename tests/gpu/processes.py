# SPDX-License-Identifier: Apache-2.0
"""Processes whose program uses a graphics card: where there is none, the stand-in for one."""

import json
import os
import subprocess
import sys

import pytest
import torch

from tests.standin import run as stand_in
from tests.standin.settings import variables_of

HAS_CARD = torch.cuda.is_available()
on_a_card = pytest.mark.skipif(
    not HAS_CARD and not stand_in.libraries(), reason="no graphics card here, and no stand-in"
)
on_the_stand_in = pytest.mark.skipif(
    HAS_CARD or not stand_in.libraries(), reason="needs the stand-in for a card"
)
on_two_cards = pytest.mark.skipif(
    torch.cuda.device_count() < 2 and (HAS_CARD or not stand_in.libraries()),
    reason="no two graphics cards here, and no stand-in",
)
# Between the interpreter and what it runs.
THROUGH = [] if HAS_CARD else ["tests/standin/run.py", "-m", "tests.standin.true_values"]

# Else a line tells of the others.
ONE_CARD = {"CUDA_VISIBLE_DEVICES": "0"} if HAS_CARD else {}
#: A program that does.
USES_IT = """
import torch
torch.empty(8 << 20, device="cuda")
"""


def run(tmp_path, *arguments, **variables):
    """Runs a module of this folder; returns what it printed and its statistics, if managed."""
    stats = tmp_path / "stats.json"
    settings = variables_of(variables)
    if settings:
        settings |= {"SPILLWAY_STATS": str(stats), "SPILLWAY_SPOOL_DIR": str(tmp_path)}
    child = subprocess.run(
        [sys.executable, *(THROUGH or ["-m"]), *arguments],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout, json.loads(stats.read_text()) if settings else None


def told(tmp_path, status, code="import torch", before=(), **variables):
    """What a program is told on standard error that ends with that status.

    Args:
        code: the program, which computes nothing on the stand-in but memory.
        before: a command that runs it.
    """
    child = subprocess.run(
        [*before, sys.executable, *THROUGH[:1], "-c", code],
        env=os.environ | {"SPILLWAY_SPOOL_DIR": str(tmp_path), **ONE_CARD} | variables,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert child.returncode == status, child.stderr
    return child.stderr
