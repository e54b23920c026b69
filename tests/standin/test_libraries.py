# SPDX-License-Identifier: Apache-2.0
"""A card's libraries load with the first launches, beside tensors that fill the budget: as on an
H100, where the driver counted up to 14 % more than the budget before room was kept for them."""

import json
import os
import subprocess
import sys

import pytest

from tests.standin import needed
from tests.standin.settings import variables_of

pytestmark = needed.STAND_IN
MIB = 1 << 20
CARD = {"STAND_IN_MIB": "2048", "STAND_IN_CONTEXT_MIB": "96", "STAND_IN_LIBRARIES_MIB": "40"}


def train(folder, **settings):
    """Returns what tests.standin.train wrote of wide_mlp, and Spillway's statistics."""
    report, stats = folder / "report.json", folder / "stats.json"
    environment = os.environ | CARD
    if settings:
        environment |= variables_of(settings)
        environment |= {"SPILLWAY_STATS": str(stats), "SPILLWAY_SPOOL_DIR": str(folder)}
    program = ["tests/standin/run.py", "-m", "tests.standin.train", "wide_mlp:sgd"]
    child = subprocess.run(
        [sys.executable, *program, "-o", report],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    (run,) = json.loads(report.read_text())["runs"]
    return run, json.loads(stats.read_text()) if settings else None


@pytest.fixture(scope="module")
def unmanaged(tmp_path_factory):
    return train(tmp_path_factory.mktemp("unmanaged"))[0]


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_the_driver_never_counts_more_than_the_budget(share, unmanaged, tmp_path):
    beside = unmanaged["card"]["driver"] - unmanaged["card"]["large"]
    budget = int(unmanaged["card"]["large"] * share) + beside
    run, stats = train(tmp_path, budget=f"cuda:{budget}", host_budget="1GiB")
    assert run["digests"] == unmanaged["digests"]
    assert stats["evicted_bytes"] > 0
    assert stats["unmanaged_bytes"] >= (96 + 40) * MIB
    assert run["card"]["driver"] <= budget
