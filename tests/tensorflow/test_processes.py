# SPDX-License-Identifier: Apache-2.0
"""Other processes and threads beside a training; trainings that are killed and interrupted."""

import os
import signal
import subprocess
import sys

import pytest

from tests.tensorflow.runner import PROGRAMS, assert_equal, environment, run
from tests.tensorflow.selection import selected

FUZZ = {"SPILLWAY_MODE": "fuzz", "SPILLWAY_BUDGET": "400MiB"}


BESIDE = ["worker_processes", "pipeline_threads", "pool", "spawned"]


@pytest.mark.parametrize("program", selected(BESIDE, 1))
def test_others_work_beside_it(program):
    stock = run("processes.py", program, 300)
    assert stock.status == 0, stock.errors
    found = run("processes.py", program, 300, **FUZZ)
    assert found.status == 0, found.errors
    assert_equal(found, stock)
    assert found.statistics["fetched_bytes"] > 0


@pytest.mark.parametrize("disk", ["1GiB", "1MiB"])
def test_forks_while_copies_end_and_fail(disk):
    """What a full disk is told with takes locks that a fork takes, too."""
    stock = run("processes.py", "forked_often", 300)
    assert stock.status == 0, stock.errors
    found = run("processes.py", "forked_often", 300, **FUZZ, SPILLWAY_DISK_BUDGET=disk)
    assert found.status == 0, found.errors
    assert_equal(found, stock)


@pytest.fixture
def training(tmp_path):
    """A training in fuzz that has bytes in the spool, and the spool's folder."""
    spool = tmp_path / "spool"
    spool.mkdir()
    process = subprocess.Popen(
        [sys.executable, PROGRAMS / "processes.py", "endless", tmp_path / "out.npz"],
        env=environment(SPILLWAY_SPOOL_DIR=str(spool), **FUZZ),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for _ in range(3):
            assert process.stdout.readline() == "step\n", process.stderr.read()
        assert _open_in(process.pid, spool)
        yield process, spool
    finally:
        process.kill()
        process.communicate()


def _open_in(process, folder):
    """Files of that folder that the process has open, with a name or without."""
    descriptors = f"/proc/{process}/fd"
    found = []
    for name in os.listdir(descriptors):
        try:
            found.append(os.readlink(f"{descriptors}/{name}"))
        except FileNotFoundError:  # closed meanwhile
            continue
    return [path for path in found if path.startswith(f"{folder}/")]


def test_a_killed_training_leaves_no_file(training):
    process, spool = training
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert os.listdir(spool) == []


def test_an_interrupted_training_ends_and_leaves_no_file(training):
    process, spool = training
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (-signal.SIGINT, 1, 130)
    assert "KeyboardInterrupt" in errors
    assert "spillway" not in errors
    assert os.listdir(spool) == []
