# SPDX-License-Identifier: Apache-2.0
"""An op works on a variable while another thread lacks the memory that this takes.

python long_op.py NAME OUTPUT.npz

NAME: `reads`. With Spillway the op waits until the variable has left memory under it, ten seconds
at most, and then reads it again; `left` says whether it had.
"""

import os
import sys
import threading
import time

import numpy as np
import resident
import tensorflow as tf

PATIENCE = 10  # seconds
NEEDED = 12 << 20  # bytes: of a budget of 16 MiB more than there is beside the variable


class LongOp:
    """Adds up what it is given, before and after it has left."""

    def __init__(self):
        self.began = threading.Event()
        self.left = False

    def __call__(self, array):
        before = array.sum()
        self.began.set()
        if "SPILLWAY_BUDGET" in os.environ:
            self._wait_until_it_left(array.ctypes.data)
        return np.array([before, array.sum()])

    def _wait_until_it_left(self, address):
        end = time.monotonic() + PATIENCE
        # An array of its own would be no variable's memory.
        is_mapped = any(begin <= address < end for begin, end in resident.mappings())
        while is_mapped and not self.left and time.monotonic() < end:
            time.sleep(0.01)
            self.left = resident.resident_bytes() == 0


def reads():
    variable = tf.Variable(np.random.default_rng(1).standard_normal((3 << 18,)))  # of 6 MiB
    op = LongOp()

    @tf.function
    def read():
        return tf.numpy_function(op, [variable.read_value()], tf.float64)

    def need_memory():
        op.began.wait()
        tf.fill((NEEDED,), np.uint8(1)).numpy()

    other = threading.Thread(target=need_memory)
    other.start()
    sums = read().numpy()
    other.join()
    return sums, [variable.numpy()], op.left


def main(name, output):
    losses, arrays, left = globals()[name]()
    np.savez(output, losses=losses, left=left, **{f"w{i}": a for i, a in enumerate(arrays)})


if __name__ == "__main__":
    main(*sys.argv[1:])
