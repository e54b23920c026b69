# SPDX-License-Identifier: Apache-2.0
"""Runs a TensorFlow program while a thread looks at Spillway's counters, and writes what it saw.

python demo_sampler.py OUTPUT.json PYTHON SCRIPT ARGUMENTS...

PYTHON is the interpreter's name, as in the command it stands before.
"""

import json
import runpy
import sys
import threading
import time
from pathlib import Path

import spillway.tensorflow

EVERY_SECONDS = 0.004
NAMES = ("steps", "live_bytes", "disk_bytes", "host_bytes", "evicted_bytes", "fetched_bytes")


def sample(samples, ended):
    while not ended.wait(EVERY_SECONDS):
        statistics = spillway.tensorflow.stats()
        if statistics:
            seen = {name: statistics[name] for name in NAMES}
            samples.append({"time": time.monotonic(), **seen})


def main(output, _, script, *arguments):
    # Before the thread: two imports at once would wait for each other.
    import tensorflow  # noqa: F401

    samples, ended = [], threading.Event()
    thread = threading.Thread(target=sample, args=(samples, ended))
    thread.start()
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        ended.set()
        thread.join()
    Path(output).write_text(json.dumps(samples), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
