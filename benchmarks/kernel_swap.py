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
import signal
import subprocess
import sys
import time
from pathlib import Path

SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class UnavailableError(Exception):
    """Kernel swap could not be set up; the text says why."""


class KernelSwap:
    """A context manager; the program must have ended before it is left."""

    def __init__(self, directory, limit, swap_bytes):
        self.directory, self.limit, self.swap_bytes = Path(directory), limit, swap_bytes
        self._undo = contextlib.ExitStack()

    def __enter__(self):
        """Raises UnavailableError."""
        if os.geteuid() != 0:
            raise UnavailableError("needs root")
        remove_leftovers(self.directory)
        try:
            self._group, self._version = make_group(self._undo)
            name = {1: "memory.limit_in_bytes", 2: "memory.max"}[self._version]
            (self._group / name).write_text(str(self.limit), encoding="ascii")
            self._add_swap()
        except OSError as error:
            self._leave()
            raise UnavailableError(f"no memory cgroup: {error}") from None
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_):
        self._leave()

    def enter(self):
        """Called in the child before it becomes the program."""
        (self._group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def peak_bytes(self):
        """Most memory the group ever held, or 0 where the kernel does not tell."""
        name = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}[self._version]
        try:
            return int((self._group / name).read_text(encoding="ascii"))
        except OSError:
            return 0

    def _leave(self):
        # A second signal must not interrupt the clearing up.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._undo.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

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


def make_group(undo):
    """A new memory cgroup below those that hold this process, and its version."""
    errors = []
    for parent, version_ in group_parents():
        group = parent / f"spillway-bench-{os.getpid()}"
        try:
            undo.callback(remove_group, group)
            group.mkdir()
        except OSError as error:
            errors.append(str(error))
            continue
        return group, version_
    raise UnavailableError("; ".join(errors) or "no memory controller of cgroups is mounted")


def group_parents():
    """Where a group may be made, nearest first: limits that hold for us hold for it too."""
    mounts = [line.split()[1:4] for line in Path("/proc/mounts").read_text().splitlines()]
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own.update((name, path.lstrip("/")) for name in controllers.split(","))
    for point, kind, options in mounts:
        mount = Path(point)
        if kind == "cgroup" and "memory" in options.split(","):
            nearest = mount / own.get("memory", "")
            yield (nearest if nearest.is_dir() else mount), 1
        elif kind == "cgroup2":
            nearest = mount / own.get("", "")
            # A group that holds processes cannot have limited groups in it: its parents can.
            for parent in (nearest, *nearest.parents):
                if not parent.is_relative_to(mount):
                    break
                if "memory" in words(parent / "cgroup.subtree_control"):
                    yield parent, 2


def words(path):
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def remove_group(group):
    # The kernel counts a process as a member for a moment after it has ended.
    reason = None
    for _ in range(50):
        if not group.is_dir():
            return
        try:
            group.rmdir()
        except OSError as error:
            reason = error
            time.sleep(0.1)
    if reason and group.is_dir():
        print(f"left behind: {group}: {reason}", file=sys.stderr)


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
