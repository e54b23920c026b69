# SPDX-License-Identifier: Apache-2.0
"""Sums that stock TensorFlow takes apart keep the bits that they have where it leaves them whole.

Where Grappler expects more than 205 MiB of tensors, its memory optimizer adds the terms of a sum in
the order in which they come, so stock's last bits differ from run to run (docs/tensorflow.md,
Sums). The programs are large enough for that.
"""

import json
import subprocess
import sys

import pytest

from tests.tensorflow.runner import PROGRAMS, environment

KERAS_PROGRAMS = PROGRAMS.parents[2] / "benchmarks" / "programs_keras"


def trained(script, *arguments, **variables):
    """Returns the losses and the hash of the weights after two steps."""
    done = subprocess.run(
        [sys.executable, KERAS_PROGRAMS / script, "--steps", "2", *arguments],
        env=environment(**variables), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *losses, weights = (json.loads(line) for line in done.stdout.splitlines())
    return [line["loss"] for line in losses], weights["weights"]


@pytest.mark.parametrize(
    ("program", "variables"),
    [
        (("unet3d.py", "--size", "80", "--batch", "1", "--width", "8"), {}),
        (("experts.py", "--experts", "16"), {"SPILLWAY_PLANNER": "hybrid"}),
    ],
    ids=["unet_3d", "mixture_of_experts"],
)
def test_sums_have_the_bits_of_the_order_in_the_graph(program, variables):
    whole = trained(*program, "--memory-optimization", "NO_MEM_OPT")
    assert trained(*program, SPILLWAY_BUDGET="256MiB", **variables) == whole
