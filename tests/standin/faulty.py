# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron on the stand-in card while calls of Spillway's to the driver fail. Prints
what tests.gpu.card_training does, and how many calls failed.

python tests/standin/run.py -m tests.standin.faulty [FUNCTION CODE WHICH]

FUNCTION is the driver's, CODE a CUresult. WHICH: the `third` call of each step but the first two,
or `all` of these steps, or `ever`, all from the start on. `lost` as FUNCTION: the card is lost
after two steps.
"""

import ctypes
import json
import sys

from tests.gpu.card_training import train
from tests.standin import true_values

SOUND_STEPS = 2


def strike(step, function, code=0, which="all"):
    """Arms the failure anew."""
    card = ctypes.CDLL(None)
    if step < SOUND_STEPS and which != "ever":
        return
    if function == "lost":
        card.stand_in_lose(b"a fault in a kernel")
    elif which == "third":
        card.stand_in_fail(function.encode(), 3, int(code), 0)
    else:
        card.stand_in_fail(function.encode(), 1, int(code), 1)


def main(*fault):
    true_values.install()
    found = train("perceptron", before_step=lambda step: fault and strike(step, *fault))
    failed = ctypes.CDLL(None).stand_in_fail(fault[0].encode(), 0, 0, 0) if fault else 0
    print(json.dumps({**found, "failed": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
