# SPDX-License-Identifier: Apache-2.0
"""Programs about single ops on variables, one after the other in one process.

python in_turn.py NAME,NAME,... OUTPUT.npz

With Spillway a program ends with an error where a variable of its own does not lie in the store.
"""

import gc
import sys

import keras
import numpy as np
import partial_writes
import sparse_optimizers
import states

PROGRAMS = {**vars(partial_writes), **vars(sparse_optimizers), **vars(states)}


def main(names, output):
    found = {"losses": []}
    for name in names.split(","):
        gc.collect()  # what the last one left
        keras.utils.set_random_seed(0)
        losses, arrays = PROGRAMS[name]()
        found["losses"] += np.ravel(losses).tolist()
        found |= {f"{name}_{i}": array for i, array in enumerate(arrays)}
    np.savez(output, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
