# SPDX-License-Identifier: Apache-2.0
"""Room for a program that the kernel swaps: a memory cgroup with a limit, and a swap file.

Works with cgroups of version 1 and 2 and needs root. Everything is undone on leaving, whatever was
the way out; only SIGKILL prevents it, and then the next run removes the swap file. While it lasts
that file serves the whole machine: the kernel has no other kind.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from memory_group import MemoryGroup, UnavailableError

SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class KernelSwap(MemoryGroup):
    """A context manager; the program must have ended before it is left."""

    def __init__(self, directory, limit, swap_bytes):
        super().__init__(limit)
        self.directory, self.swap_bytes = Path(directory), swap_bytes

    def _set_up(self):
        remove_leftovers(self.directory)
        self._add_swap()

    def _add_swap(self):
        path = self.directory / f"spillway-bench-{os.getpid()}.swap"
        free = shutil.disk_usage(self.directory).free
        if free < self.swap_bytes + (1 << 30):
            need, have = self.swap_bytes >> 20, free >> 20
            raise UnavailableError(f"a swap file of {need} MiB and 1 GiB over; {have} MiB are free")
        # Before the file exists: being undone must not depend on where a signal arrives.
        self._undo.callback(remove_swap, path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.swap_bytes)
        except OSError as error:
            raise UnavailableError(f"no swap file: {error}") from None
        finally:
            os.close(descriptor)
        for tool in ("mkswap", "swapon"):
            command = [shutil.which(tool, path=SBIN) or tool, str(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise UnavailableError(f"{tool}: {error}") from None
            if done.returncode:
                raise UnavailableError(f"{tool}: {done.stderr.strip()}")


def remove_swap(path):
    if not path.exists():
        return
    swapoff = shutil.which("swapoff", path=SBIN) or "swapoff"
    with contextlib.suppress(OSError):
        subprocess.run([swapoff, str(path)], capture_output=True, check=False)
    try:
        path.unlink()
    except OSError as error:
        print(f"left behind: {path}: {error}; swapoff and remove it", file=sys.stderr)


def remove_leftovers(directory):
    """Swap files of runs that were killed."""
    for path in Path(directory).glob("spillway-bench-*.swap"):
        owner = re.fullmatch(r"spillway-bench-(\d+)\.swap", path.name)
        if owner and not Path("/proc", owner[1]).exists():
            remove_swap(path)
