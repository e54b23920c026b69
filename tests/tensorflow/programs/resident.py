# SPDX-License-Identifier: Apache-2.0
"""Trains a program of variables.py and watches the pages of its variables meanwhile.

python resident.py NAME OUTPUT.npz

Beside losses and weights the output has `resident_bytes`, for each sample the pages of variables
that lay in memory, and `counted_bytes`, how many of them counted in the budget just before or just
after, whichever was more.
"""

import re
import sys
import threading

import keras
import numpy as np
import variables

import spillway.tensorflow

PAGE = 4096
PRESENT = np.uint64(63)  # the bit of a word of /proc/self/pagemap
# Shared mappings of a file without a name, which the spool is.
SPOOL = re.compile(r"^(\w+)-(\w+) rw-s .*\(deleted\)$", re.MULTILINE)


def mappings():
    """Where the spool is mapped: pairs of addresses."""
    with open("/proc/self/maps") as maps:
        return [(int(begin, 16), int(end, 16)) for begin, end in SPOOL.findall(maps.read())]


def resident_bytes():
    """Pages that the process has of the spool's mappings."""
    pages = 0
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for begin, end in mappings():
            pagemap.seek(begin // PAGE * 8)
            words = np.frombuffer(pagemap.read((end - begin) // PAGE * 8), np.uint64)
            pages += int((words >> PRESENT).sum())
    return pages * PAGE


def counted_bytes():
    return spillway.tensorflow.stats()["variable_bytes_in_memory"]


class Watch(threading.Thread):
    """Takes samples until it is stopped."""

    def __init__(self):
        super().__init__(daemon=True)
        self.resident, self.counted = [], []
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(0.001):
            before = counted_bytes()
            self.resident.append(resident_bytes())
            self.counted.append(max(before, counted_bytes()))

    def stop(self):
        self._ended.set()
        self.join()


def main(name, output):
    keras.utils.set_random_seed(0)
    watch = Watch()
    watch.start()
    losses, arrays = getattr(variables, name)()
    watch.stop()
    np.savez(
        output, losses=losses, resident_bytes=watch.resident, counted_bytes=watch.counted,
        **{f"w{i}": array for i, array in enumerate(arrays)},
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
