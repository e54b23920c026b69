# SPDX-License-Identifier: Apache-2.0
"""Two programs that take turns: A B, B A, A B ..., so that what disturbs one disturbs both.

Both processes live at the same time, and each stands still while the other has its turn. The first
alternates: what one leaves to the other, in the caches and on the disk, is left both ways. A
ratio is taken of each pair of neighbouring turns; the answer is the median of the ratios and their
range.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class WorkerError(Exception):
    """A worker that ended by itself; the text has its last words."""


class TooSlowError(Exception):
    """A worker that did not answer in time. `seconds` is how long it was waited for."""

    def __init__(self, seconds):
        super().__init__(f"no answer within {seconds:.0f} s")
        self.seconds = seconds


def environment(**variables):
    """The environment of this process without any Spillway setting, and with `variables`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    return {**clean, **variables}


def stock_environment(**variables):
    """For programs to compare with: nothing of Spillway is even loaded."""
    return environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0", **variables)


def exit_on_signals():
    """Lets `with` and `finally` run when the benchmark is told to end."""

    def leave(number, _frame):
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


class Worker:
    """A process that takes steps when told; a context manager, so that none is left behind.

    `prefix` is a command that runs the Python it is given, such as `spillway run --`.
    """

    def __init__(self, script, *arguments, environment, in_child=None, prefix=()):
        def before_exec():
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if in_child:
                in_child()

        self._owed = 0  # answers to orders that were not waited for to the end
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(HERE / script), *map(str, arguments)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            preexec_fn=before_exec,
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            # After a failure it may be in the midst of steps that take minutes.
            if kind is None and self._process.poll() is None:
                self._order("stop")
                self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            self.kill()
            self._process.stdin.close()
            self._process.stdout.close()
            self._complaints.close()

    def begin(self, order, count):
        """Gives an order and does not wait for its answer. Raises WorkerError."""
        try:
            self._order(f"{order} {count}")
        except OSError:
            raise self._died() from None
        self._owed += 1

    def kill(self):
        """Ends it in the midst of whatever it does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.terminate()  # which the command in front passes on, unlike SIGKILL
            self._process.wait(5)
        self._process.kill()
        self._process.wait()

    def ask(self, order, count, timeout=120):
        """Raises TooSlowError, WorkerError."""
        self.begin(order, count)
        end = time.monotonic() + timeout
        while self._owed:
            wait = max(end - time.monotonic(), 0)
            if not select.select([self._process.stdout], [], [], wait)[0]:
                raise TooSlowError(timeout)
            line = self._process.stdout.readline()
            if not line:
                raise self._died()
            self._owed -= 1
        return json.loads(line)

    def run(self, steps, timeout=120):
        """Seconds of each step, and the counters after the last."""
        answer = self.ask("run", steps, timeout)
        return answer["seconds"], answer["counters"]

    def _order(self, text):
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()

    def _died(self):
        status = self._process.wait()
        self._complaints.seek(0)
        words = self._complaints.read().decode(errors="replace").splitlines()[-15:]
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return WorkerError("\n".join([f"the worker ended with {name}", *words]))


def managed(counters):
    """The counters, if they are those of a process that Spillway manages."""
    if "mode" not in counters:
        raise WorkerError(
            f"Spillway is not active in the worker: is it installed in {sys.executable}?"
        )
    return counters


@dataclass(frozen=True)
class Spread:
    """Median and range of some values."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values):
        return cls(statistics.median(values), min(values), max(values), len(values))

    def text(self, digits=2):
        low, high = f"{self.low:.{digits}f}", f"{self.high:.{digits}f}"
        return f"**{self.median:.{digits}f}** ({low} to {high})"


@dataclass(frozen=True)
class Turn:
    """One pair: seconds per step of both, and the second one's counters around its turn."""

    first: float
    second: float
    before: dict
    after: dict

    @property
    def ratio(self):
        return self.second / self.first


def turns(
    first, second, pairs, steps,
    *, centre=statistics.median, until=None, least=20, second_begins=False,
):  # fmt: skip
    """Pairs of turns of `steps` steps, `centre` of each turn; fewer when `until` has passed.

    Who goes first alternates, `first` at the beginning unless `second_begins`.

    Raises TooSlowError if not even the first pair is done by then; each turn may take `least`
    seconds at any rate.
    """
    _, before = second.run(1, left(until, least))
    done = []
    while len(done) < pairs and (not done or until is None or time.monotonic() < until):
        try:
            second_goes_first = (len(done) % 2 == 1) != second_begins
            if not second_goes_first:
                ours, _ = first.run(steps, left(until, least))
            theirs, after = second.run(steps, left(until, least))
            if second_goes_first:
                ours, _ = first.run(steps, left(until, least))
        except TooSlowError:
            if not done:
                raise
            break
        done.append(Turn(centre(ours), centre(theirs), before, after))
        before = after
    return done


def gained(rounds, counter):
    """By how much it grew within the turns of all rounds; `counter` finds it among the counters."""
    return sum(counter(done[-1].after) - counter(done[0].before) for done in rounds)


def left(until, least):
    """Seconds until then, at least `least`; ten minutes where there is no limit."""
    return 600 if until is None else max(until - time.monotonic(), least)
