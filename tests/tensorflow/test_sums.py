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
from tests.tensorflow.selection import selected

KERAS_PROGRAMS = PROGRAMS.parents[2] / "benchmarks" / "programs_keras"
LARGE = {
    "unet_3d": ("unet3d.py", "--size", "80", "--batch", "1", "--width", "8"),
    "mixture_of_experts": ("experts.py", "--experts", "16"),
}


def trained(script, *arguments, **variables):
    """Returns the losses and the hash of the weights after two steps."""
    done = subprocess.run(
        [sys.executable, KERAS_PROGRAMS / script, "--steps", "2", *arguments],
        env=environment(**variables), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *losses, weights = (json.loads(line) for line in done.stdout.splitlines())
    return [line["loss"] for line in losses], weights["weights"]


@pytest.mark.parametrize("program", selected(LARGE, in_turn=1))
def test_sums_have_the_bits_of_the_order_in_the_graph(program):
    whole = trained(*LARGE[program], "--memory-optimization", "NO_MEM_OPT")
    assert trained(*LARGE[program], SPILLWAY_BUDGET="256MiB") == whole
