# SPDX-License-Identifier: Apache-2.0
"""A limit on the memory of a program and its children: a memory cgroup of version 1 or 2.

Needs root. The kernel ends a program that passes the limit, and no other. Undone on leaving,
whatever was the way out; only SIGKILL prevents it, and leaves an empty folder.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class UnavailableError(Exception):
    """The limit could not be set up; the text says why."""


class MemoryGroup:
    """A context manager; ends whatever is left of the program when it is left itself.

    `limit` is in bytes. A subclass adds what it needs in `_set_up`, and how to undo it.
    """

    def __init__(self, limit):
        self.limit = limit
        self._undo = contextlib.ExitStack()

    def __enter__(self):
        """Raises UnavailableError."""
        if os.geteuid() != 0:
            raise UnavailableError("needs root")
        try:
            self._group, self._version = make_group(self._undo)
            name = {1: "memory.limit_in_bytes", 2: "memory.max"}[self._version]
            (self._group / name).write_text(str(self.limit), encoding="ascii")
            self._set_up()
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

    def kernel_message(self):
        """Returns the kernel's line about a program of the group that it ended; "" where it can't
        be read.
        """
        done = subprocess.run(["dmesg"], capture_output=True, text=True, check=False)
        return last_kill(done.stdout, self._group.name)

    def _set_up(self):
        pass

    def _leave(self):
        # A second signal must not interrupt the clearing up.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._undo.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def last_kill(log, group):
    """The last line of the kernel's log about a process that was killed in the group.

    The kernel names the group in one line (`oom-kill:`) and the process in the next.
    """
    message, ours = "", False
    for line in log.splitlines():
        text = re.sub(r"^\[[^\]]*\]\s*", "", line)
        if text.startswith("oom-kill:"):
            ours = f"/{group}," in text
        elif ours and "Killed process" in text:
            message, ours = text, False
    return message


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
    """Returns where a group may be made, nearest first: limits on us hold for it too."""
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
    # The kernel counts a process as a member until its memory and files are gone, which takes many
    # seconds where it has a file without a name of twenty gigabytes. What is left of a program that
    # was given up, such as its children, ends here.
    reason = None
    for attempt in range(600):
        if not group.is_dir():
            return
        if attempt > 10:
            for process in words(group / "cgroup.procs"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
        try:
            group.rmdir()
        except OSError as error:
            reason = error
            time.sleep(0.1)
    if reason and group.is_dir():
        print(f"left behind: {group}: {reason}", file=sys.stderr)
