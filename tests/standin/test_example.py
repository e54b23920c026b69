# SPDX-License-Identifier: Apache-2.0
"""examples/gpt_on_card on the stand-in, within half of its tensors' peak: the same bits."""

import json
import os
import subprocess
import sys

import pytest

from tests.standin import needed
from tests.standin.settings import variables_of

pytestmark = needed.STAND_IN
PROGRAM = ["tests/standin/run.py", "-m", "tests.standin.true_values", "examples.gpt_on_card.train"]
SMALL = ["--width", "512", "--layers", "3", "--context", "128", "--batch", "2", "--steps", "3"]


def train(stats=None, **settings):
    environment = os.environ | variables_of(settings)
    if stats:
        environment["SPILLWAY_STATS"] = str(stats)
    child = subprocess.run(
        [sys.executable, *PROGRAM, *SMALL],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout, json.loads(stats.read_text()) if stats else None


@pytest.fixture(scope="module")
def unmanaged():
    return train()[0]


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_it_trains_to_the_same_bits(share, unmanaged, tmp_path):
    stats = tmp_path / "stats.json"
    wide = train(stats, budget="90%", host_budget="1GiB")[1]
    budget = int(wide["peak_live_bytes"] * share) + wide["unmanaged_bytes"]
    printed, found = train(stats, budget=budget, host_budget="1GiB", spool_dir=tmp_path)
    assert printed == unmanaged
    assert "weights sha256" in printed
    assert found["overshoot_bytes"] == 0
    if share < 1:
        assert found["evicted_bytes"] >= wide["peak_live_bytes"] // 2
