# SPDX-License-Identifier: Apache-2.0
"""Worker: runs a program unchanged, but halts it after as many steps as it is told.

Usage: train_example.py [--lock MODULE,...] SCRIPT [ITS ARGUMENTS]. The program's line `step N loss
X` or `{"step": N, ...}` ends a step. The first step runs without an order: loading and warming up
are nobody's step.
"""

import ctypes
import importlib
import io
import os
import re
import runpy
import sys
import time

from step_protocol import Orders, counters, moved_bytes, settle

# The step lines of the programs of examples/, and those of benchmarks/programs/.
STEP = re.compile(r'step \d+ loss |\{"step": ')


class StepTap(io.TextIOBase):
    """Standard output of the program: counts its steps and stops between them."""

    def __init__(self, orders):
        self.orders = orders
        self.left = 0
        self.seconds = []
        self.moved = 0  # bytes, when the turn began
        self.begin = time.perf_counter()

    def writable(self):
        return True

    def write(self, text):
        if STEP.match(text):
            self.end_step()
        return len(text)

    def end_step(self):
        if self.left:
            self.left -= 1
            end = time.perf_counter() if self.left else settle(self.moved)
            self.seconds.append(end - self.begin)
            if not self.left:
                self.orders.answer(seconds=self.seconds, counters=counters())
        if not self.left:
            self.left = int(self.orders.next()[1])
            self.seconds = []
            self.moved = moved_bytes()
        self.begin = time.perf_counter()


def lock(modules):
    """Imports these and keeps what is in memory then out of the kernel's swap."""
    for name in modules:
        importlib.import_module(name)
    current, on_fault = 1, 4  # MCL_CURRENT | MCL_ONFAULT: nothing more is read for it
    if ctypes.CDLL(None, use_errno=True).mlockall(current | on_fault) != 0:
        raise OSError(ctypes.get_errno(), f"mlockall: {os.strerror(ctypes.get_errno())}")


def main():
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "--lock":
        lock(sys.argv[1].split(","))
        sys.argv = sys.argv[2:]
    sys.stdout = StepTap(Orders())
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))  # as if it had been started itself
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
