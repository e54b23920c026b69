# SPDX-License-Identifier: Apache-2.0
"""The CUDA that is none under the installed PyTorch: memory, copies, streams, events."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.standin import needed

pytestmark = needed.STAND_IN
HERE = pathlib.Path(__file__).parent


def _run(name, **variables):
    environment = os.environ | {"STAND_IN_MIB": "64"} | variables
    environment.pop("SPILLWAY_BUDGET", None)
    return subprocess.run(
        [sys.executable, HERE / "run.py", HERE / "inside.py", name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", ["copies", "accounts", "out_of_memory", "streams"])
def test_on_the_stand_in(name):
    child = _run(name)
    assert child.returncode == 0, child.stderr


def test_expandable_segments():
    child = _run("segments", PYTORCH_ALLOC_CONF="expandable_segments:True")
    assert child.returncode == 0, child.stderr


def test_a_kernel_is_named_and_ends_the_process():
    child = _run("launches")
    assert child.returncode == -6, child.stderr
    assert "the launch of a kernel is not modelled: void at::native::" in child.stderr
