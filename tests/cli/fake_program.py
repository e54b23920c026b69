# SPDX-License-Identifier: Apache-2.0
"""Stands in for a training program: does what its arguments say, one after the other.

It claims a slot of the status page as the engine would, so the command can be tested without one.
The structures mirror runtime/include/spillway/runtime/status_page.hpp.
"""

import ctypes
import fcntl
import mmap
import os
import signal
import sys
import time

MIB = 1 << 20
SLOTS = 64
U32, U64 = ctypes.c_uint32, ctypes.c_uint64
COUNTERS = (
    "budget_bytes",
    "host_budget_bytes",
    "disk_budget_bytes",
    "device_bytes",
    "host_bytes",
    "disk_bytes",
    "unmanaged_bytes",
    "peak_device_bytes",
    "floor_bytes",
    "evicted_bytes",
    "clean_evicted_bytes",
    "fetched_bytes",
    "disk_written_bytes",
    "disk_read_bytes",
    "stall_ns",
    "mapping_ns",
    "elapsed_ns",
    "steps",
    "last_step_ns",
    "last_step_moved_bytes",
    "ops",
    "step_began_ops",
    "last_step_ops",
    "overshoot_bytes",
    "stopped_after_step",
    "shortages",
    "short_bytes",
    "ops_at_shortage",
    "started_ns",
    "ended_ns",
)


class Mover(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 96), ("moved_bytes", U64)]


class Slot(ctypes.Structure):
    _fields_ = [
        ("pid", U32),
        ("mode", U32),
        *((name, U64) for name in COUNTERS),
        ("ending", U32),
        ("unwritten", U32),
        ("waits", U32),
        ("io", ctypes.c_char * 96),
        ("pages", ctypes.c_char * 160),
        ("planner", ctypes.c_char * 64),
        ("notes", ctypes.c_char * 2048),
        ("movers", Mover * 5),
    ]


class Page(ctypes.Structure):
    _fields_ = [("version", U32), ("slots", Slot * SLOTS)]


def claim(**counters):
    """Claims the first free slot; the order of stores is the engine's: the pid last."""
    descriptor = os.open(os.environ["SPILLWAY_STATUS_PAGE"], os.O_RDWR)
    page = Page.from_buffer(mmap.mmap(descriptor, ctypes.sizeof(Page)))
    assert page.version == 9, page.version
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # Python has no atomic exchange
    slot = next(slot for slot in page.slots if slot.pid == 0)
    slot.mode = 2
    for name, value in counters.items():
        setattr(slot, name, value)
    slot.io = b"threads; io_uring: forbidden here, as in most containers"
    slot.pages = b"page pool"
    slot.movers[0].name = b"aten::convolution [2, 32, 96] float"
    slot.movers[0].moved_bytes = 300 * MIB
    slot.pid = os.getpid()
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return slot


def claim_busy():
    return claim(
        budget_bytes=1024 * MIB,
        device_bytes=812 * MIB,
        peak_device_bytes=1021 * MIB,
        disk_bytes=2150 * MIB,
        evicted_bytes=8192 * MIB,
        clean_evicted_bytes=4096 * MIB,
        fetched_bytes=11264 * MIB,
        disk_written_bytes=8192 * MIB,
        disk_read_bytes=11264 * MIB,
        stall_ns=10**9,
        mapping_ns=2 * 10**8,
        elapsed_ns=25 * 10**9,
        steps=12,
        last_step_ns=18 * 10**8,
        last_step_moved_bytes=3482 * MIB,
    )


def progress_bar(updates):
    """Prints as tqdm does: one line, rewritten from its start."""
    for done in range(updates + 1):
        sys.stderr.write(f"\r{100 * done // updates:3d}%|{'#' * (20 * done // updates):20}|")
        sys.stderr.flush()
        time.sleep(0.02)
    sys.stderr.write("\n")


def wait_for_signals():
    """Names each signal as it arrives; SIGTERM ends it with 9."""
    seen = []
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, frame: seen.append(number))
    print("ready", flush=True)
    while signal.SIGTERM not in seen:
        time.sleep(0.01)
    time.sleep(0.3)  # a signal delivered twice has time to arrive
    print("seen " + " ".join(signal.Signals(number).name for number in seen), flush=True)
    sys.exit(9)


def act(word):
    name, _, value = word.partition("=")
    if name == "claim":
        claim_busy()
    elif name == "claim-small":
        claim(budget_bytes=MIB)
    elif name == "fork":
        if os.fork() == 0:
            claim_busy()
            time.sleep(float(value))
            os._exit(0)
    elif name == "bar":
        progress_bar(int(value))
    elif name == "lines":
        for number in range(int(value)):
            print(f"line {number}", flush=True)
    elif name == "partial":
        sys.stdout.write(value)
        sys.stdout.flush()
    elif name == "print":
        print(value, flush=True)
    elif name == "variable":
        print(f"{value}={os.environ.get(value)}", flush=True)
    elif name == "read":
        print("read " + sys.stdin.readline().strip(), flush=True)
    elif name == "terminal":
        print("terminal " + " ".join(str(os.isatty(n)) for n in range(3)), flush=True)
    elif name == "sleep":
        time.sleep(float(value))
    elif name == "own-group":
        os.setpgid(0, 0)
    elif name == "signals":
        wait_for_signals()
    elif name == "die":
        os.kill(os.getpid(), getattr(signal, value))
    elif name == "exit":
        sys.exit(int(value))
    else:
        sys.exit(f"unknown action {word}")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        act(argument)
