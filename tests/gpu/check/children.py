# SPDX-License-Identifier: Apache-2.0
"""Programs that the check starts: each in a process of its own, with a limit of time."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

LAST_LINES = 30


@dataclass(frozen=True)
class Job:
    """A module of tests.gpu, its arguments and Spillway's settings, in lower case."""

    name: str
    module: str
    arguments: tuple = ()
    settings: dict = field(default_factory=dict)
    limit: float = 60  # seconds


@dataclass
class Outcome:
    name: str
    pid: int
    status: int | str  # of the exit, or "no end"
    seconds: float
    answer: dict | None  # the last line of its output, where that is JSON
    stats: dict | None  # Spillway's
    words: list  # the last lines of both outputs, where it failed

    @property
    def is_well(self):
        return self.status == 0

    def as_json(self):
        return asdict(self)


def environment(settings):
    """This process's without any of Spillway's variables, and with `settings`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    return clean | {f"SPILLWAY_{name.upper()}": str(value) for name, value in settings.items()}


def run(job):
    """Returns the outcome; a child that does not end in time is asked for its stacks and killed."""
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "stats.json"
        settings = dict(job.settings)
        if settings:
            settings |= {"stats": stats, "spool_dir": folder, "summary": 0}
        begin = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", job.module, *map(str, job.arguments)],
            env=environment(settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = child.communicate(timeout=job.limit)
            status = child.returncode
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGABRT)  # faulthandler tells where each thread is
            out, err = _leave(child)
            status = "no end"
        counted = json.loads(stats.read_text()) if stats.exists() else None
    lines = out.splitlines()
    words = [] if status == 0 else lines[-LAST_LINES:] + err.splitlines()[-LAST_LINES:]
    seconds = round(time.monotonic() - begin, 1)
    return Outcome(job.name, child.pid, status, seconds, _answer(lines), counted, words)


def together(jobs, at_once):
    """The outcomes of all, in order."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, jobs))


def _leave(child):
    try:
        return child.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()


def _answer(lines):
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return found if isinstance(found, dict) else None
