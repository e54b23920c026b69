# SPDX-License-Identifier: Apache-2.0
"""Two ranks of DistributedDataParallel over gloo, each with a budget of its own card."""

import json
import os
import subprocess
import sys

from tests.oracle.launch import MIB
from tests.standin import needed

pytestmark = needed.STAND_IN
RANKS = 2
TIMEOUT = 300


def _train(folder, **variables):
    """What each rank printed, and its statistics if it was managed."""
    folder.mkdir()
    started = []
    for rank in range(RANKS):
        stats = folder / f"{rank}.json"
        settings = {f"SPILLWAY_{name.upper()}": value for name, value in variables.items()}
        if settings:
            settings |= {"SPILLWAY_STATS": str(stats), "SPILLWAY_SPOOL_DIR": str(folder)}
        words = ["tests/standin/run.py", "-m", "tests.standin.data_parallel"]
        command = [sys.executable, *words, str(folder / "rendezvous"), str(rank), str(RANKS)]
        environment = os.environ | {"SPILLWAY_HOST_BUDGET": "1GiB"} | settings
        if not settings:
            del environment["SPILLWAY_HOST_BUDGET"]
        started.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    ranks = []
    try:
        for rank, child in enumerate(started):
            output, errors = child.communicate(timeout=TIMEOUT)
            assert child.returncode == 0, errors
            found = json.loads(output)
            if variables:
                found["stats"] = json.loads((folder / f"{rank}.json").read_text())
            ranks.append(found)
    finally:
        for child in started:
            child.kill()
    return ranks


def test_two_ranks_train_the_same_within_their_budgets(tmp_path):
    alone = _train(tmp_path / "alone")
    assert alone[0]["digest"] == alone[1]["digest"], "what the ranks agreed on"
    budget = alone[0]["card"] * 6 // 10
    for found, expected in zip(_train(tmp_path / "managed", budget=f"cuda:{budget}"), alone):
        assert found["losses"] == expected["losses"]
        assert found["digest"] == expected["digest"]
        assert found["stats"]["evicted_bytes"] > MIB
        assert found["stats"]["fetched_bytes"] > MIB
        assert found["stats"]["overshoot_bytes"] == 0
        assert found["card"] <= budget
