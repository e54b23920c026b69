# SPDX-License-Identifier: Apache-2.0
"""Runs a program in a process of its own, with and without Spillway, and compares what it did."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20


@dataclass(frozen=True)
class Result:
    status: int
    arrays: dict  # losses and weights by name; empty where the program did not end well
    statistics: dict  # Spillway's; empty without it
    errors: str
    seconds: float = 0  # of its process, TensorFlow's import apart; of a Server's programs alone
    resident_bytes: int = 0  # the most, likewise


def environment(**variables):
    """This one's without Spillway, and these variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    return clean | {"TF_CPP_MIN_LOG_LEVEL": "2", **variables}


def run(script, name, timeout=600, **variables):
    """Where a variable is given, its statistics are read, which it writes at its end."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("arrays.npz", "statistics.json", "errors")]
        if variables:
            variables["SPILLWAY_STATS"] = str(paths[1])
        with paths[2].open("w") as errors:
            done = subprocess.run(
                [sys.executable, PROGRAMS / script, name, paths[0]],
                env=environment(**variables), stderr=errors, timeout=timeout,
            )  # fmt: skip
        return _result(paths, status=done.returncode)


def _result(paths, **measured):
    arrays, statistics, errors = paths
    return Result(
        arrays=dict(np.load(arrays)) if arrays.exists() else {},
        statistics=json.loads(statistics.read_text()) if statistics.exists() else {},
        errors=errors.read_text(errors="replace"),
        **measured,
    )


class Server:
    """Programs of the table, in children of one process that has imported TensorFlow once."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, PROGRAMS / "server.py"],
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._kept = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def train(self, program, seconds=600, epochs=None, **variables):
        """As run(). Where a variable is given Spillway is enabled before the first tensor."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("arrays.npz", "statistics.json", "errors")]
            if variables:
                variables["SPILLWAY_STATS"] = str(paths[1])
            job = {"program": program, "variables": variables, "seconds": seconds}
            job |= {"epochs": epochs}
            job |= {"output": str(paths[0]), "errors": str(paths[2])}
            print(json.dumps(job), file=self._process.stdin, flush=True)
            return _result(paths, **json.loads(self._process.stdout.readline()))

    def kept(self, program, **variables):
        """The result of one run that ended well, for all who compare with it."""
        key = (program, *sorted(variables.items()))
        if key not in self._kept:
            found = self.train(program, **variables)
            assert found.status == 0, found.errors
            self._kept[key] = found
        return self._kept[key]


def assert_equal(found, expected):
    assert found.arrays.keys() == expected.arrays.keys()
    assert not differences(found, expected)
    assert np.isfinite(expected.arrays["losses"]).all()


def differences(found, expected):
    """Names of what is not the same in every bit."""
    names = found.arrays.keys() & expected.arrays.keys()
    differ = {name for name in names if not _same(found.arrays[name], expected.arrays[name])}
    return sorted(differ | (found.arrays.keys() ^ expected.arrays.keys()))


def _same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
