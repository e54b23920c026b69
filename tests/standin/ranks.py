# SPDX-License-Identifier: Apache-2.0
"""Two ranks of DistributedDataParallel over gloo, each with a stand-in card, or both with one."""

import json
import os
import subprocess
import sys

from tests.standin.settings import variables_of

RANKS = 2
TIMEOUT = 300
PROGRAM = ["tests/standin/run.py", "-m", "tests.standin.data_parallel"]


def train(folder, settings=None, card=None):
    """Returns what each rank printed, and its `stats` if it was managed: if there are `settings`,
    those of Spillway by their variables' last words. `card`: those of the stand-in card likewise.
    """
    folder.mkdir()
    started = []
    for rank in range(RANKS):
        environment = os.environ | variables_of(card or {}, "STAND_IN")
        if settings:
            written = {"stats": folder / f"{rank}.json", "spool_dir": folder}
            environment |= variables_of({"host_budget": "1GiB", **settings, **written})
        command = [sys.executable, *PROGRAM, str(folder / "rendezvous"), str(rank), str(RANKS)]
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
            if settings:
                found["stats"] = json.loads((folder / f"{rank}.json").read_text())
            ranks.append(found)
    finally:
        for child in started:
            child.kill()
    return ranks
