# SPDX-License-Identifier: Apache-2.0
"""The worker's side of a paired run: orders on standard input, answers on standard output.

An order is a line, `run 20` or `stop` or what a worker adds. An answer is a line of JSON. Between
orders a worker stands still, so two of them can take turns on one machine.
"""

import dataclasses
import json
import os
import resource
import sys
import time


class Orders:
    """Orders of the benchmark. What the program itself prints goes to nowhere."""

    def __init__(self):
        self._answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def next(self):
        """The words of the next order; ends the program at `stop`, or when nobody orders."""
        words = sys.stdin.readline().split()
        if not words or words[0] == "stop":
            raise SystemExit(0)
        return words

    def answer(self, **values):
        print(json.dumps(values), file=self._answers, flush=True)


# A disk that is at work gives or takes a chunk of 4 MiB in this time, or it is below 40 MB/s.
QUIET_SECONDS = 0.1


def moved_bytes():
    """Returns the bytes that Spillway wrote to its spool and read; 0 where it is not active."""
    told = statistics_of_spillway()
    names = ("disk_written_bytes", "disk_read_bytes")
    if names[0] not in told:  # TensorFlow's, where the disk is all that is below its memory
        names = ("evicted_bytes", "fetched_bytes")
    return sum(told.get(name, 0) for name in names)


def statistics_of_spillway():
    """Returns its statistics in this process by name; none where it is not active."""
    # Asked of the loaded modules: importing the package would be something stock does not do.
    if "spillway._activation" in sys.modules:
        return dataclasses.asdict(sys.modules["spillway"].stats())
    if "spillway._unmanaged" in sys.modules:  # a program of TensorFlow's
        from spillway import tensorflow

        return tensorflow.stats() or {}
    return {}


def settle(moved_before, moved=moved_bytes, clock=time.perf_counter, sleep=time.sleep):
    """Waits until transfers that are under way have ended, and returns when that was.

    What is written behind goes on after the last step. The next turn is another process's: ended in
    it, the work would be timed as the other's. Without transfers since `moved_before` no time
    passes.
    """
    end = clock()
    last = moved()
    if last == moved_before:
        return end
    quiet_since = end
    while clock() - quiet_since < QUIET_SECONDS:
        sleep(0.001)
        now = moved()
        if now != last:
            last, quiet_since = now, clock()
    return quiet_since


def swapped_bytes():
    """Returns the bytes that the machine moved to and from swap since it started."""
    with open("/proc/vmstat", encoding="ascii") as vmstat:
        pages = [
            int(line.split()[1]) for line in vmstat if line.startswith(("pswpin ", "pswpout "))
        ]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def file_bytes():
    """Returns the bytes that disks took from this process and gave to it; else 0."""
    try:
        with open("/proc/self/io", encoding="ascii") as io:
            values = dict(line.split(": ") for line in io)
        return int(values["read_bytes"]) + int(values["write_bytes"])
    except (OSError, KeyError):
        return 0


def counters():
    """Returns what the kernel and, where active, Spillway count of this process; mostly bytes."""
    values = {"page_faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt}
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in ("VmHWM", "RssAnon", "RssShmem", "VmSwap"):
                values[name] = int(value.split()[0]) * 1024
    values["swapped_bytes"] = swapped_bytes()
    values["file_bytes"] = file_bytes()
    return values | statistics_of_spillway()
