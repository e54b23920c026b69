# SPDX-License-Identifier: Apache-2.0
"""A program within a limit that the kernel holds: does it train, with which results, how fast?"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from largest import largest
from memory_group import MemoryGroup
from paired_runs import Spread, TooSlowError, Worker, WorkerError, stock_environment, turns

MIB = 1 << 20
# Memory of the process besides tensors and imports: threads' stacks, kernels made for a shape. The
# kernel counts it for all contestants.
ALLOWANCE = 64 * MIB
UNENDING = 1_000_000_000  # steps of a worker, which is told when to stop


def is_root():
    """Whether a limit can be set; says so if not."""
    if os.geteuid() != 0:
        print("needs root, for a limit on memory that the kernel holds", file=sys.stderr)
    return os.geteuid() == 0


def say(text):
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Comparison:
    """A contestant's results beside stock's."""

    equal: bool | None  # bit for bit; None: stock's differ from one run to the next
    plans: int = 0  # made in the contestant's run


@dataclass(frozen=True)
class LimitedTrial:
    """Runs `command(value, steps)`, a script and its arguments, in what `limit()` returns.

    `value` is what grows, such as the batch. `limit` makes a MemoryGroup or what derives from it.
    """

    command: Callable
    limit: Callable
    variables: dict  # the environment of the contestant
    steps: int = 3  # of a trial; what is made in the first is held in the second
    patience: int = 300  # seconds, of each order to a worker; TensorFlow traces for a minute
    plans: dict = field(default_factory=dict)  # values that trained to plans made in their trials

    # Before times are taken: a planner's first plan is made after a step or two were measured, its
    # second four steps later.
    WARM_STEPS: ClassVar = 8

    def largest(self, first, **bounds):
        """The Largest value that trains (largest.py), or None."""
        return largest(self.trains, first, **bounds)

    def trains(self, value):
        """Whether some steps are done within the limit, and in time."""
        with self.limit() as group:
            worker = self._worker(value, self.variables, in_child=group.enter)
            try:
                with worker:
                    seconds, counters = worker.run(self.steps - 1, self.patience)
            except (WorkerError, TooSlowError) as error:
                lines = str(error).splitlines()  # the last may be anything that was killed in turn
                say(f"  {value}: {lines[0]} {lines[-1] if 'exit status' in lines[0] else ''}")
                return False
        self.plans[value] = counters.get("plans", 0)
        say(f"  {value}: {min(seconds):.2f} s a step, {self.plans[value]} plans")
        return True

    def equals_stock(self, value, steps, repeatable):
        """Returns the Comparison of losses and weights with those of stock without a limit.

        `repeatable`: stock's arguments to have it repeat itself.
        """
        alone = (stock_environment(), None, repeatable)
        stock = [self._results(value, steps, *alone) for _ in range(2)]
        if stock[0] != stock[1]:
            return Comparison(None)
        with self.limit() as group, tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "statistics.json"
            variables = {**self.variables, "SPILLWAY_STATS": str(told)}
            ours = self._results(value, steps, variables, group.enter)
            statistics = json.loads(told.read_text()) if told.exists() else {}
            return Comparison(stock[0] == ours, statistics.get("plans", 0))

    def cost(self, value, pairs, stock=None):
        """Seconds of a step against stock's, which has no limit here, as a Spread.

        `stock` is its command where that is another one.
        """
        with self.limit() as group:
            first = self._worker(value, stock_environment(), command=stock)
            second = self._worker(value, self.variables, in_child=group.enter)
            with first, second:
                first.run(self.WARM_STEPS, self.patience)
                second.run(self.WARM_STEPS, self.patience)
                return Spread.of([turn.ratio for turn in turns(first, second, pairs, 1)])

    def _worker(self, value, variables, command=None, **options):
        arguments = (command or self.command)(value, UNENDING)
        return Worker("train_example.py", *arguments, environment=variables, **options)

    def _results(self, value, steps, variables, in_child, arguments=()):
        """Returns the lines that the program prints, without the times."""
        done = subprocess.run(
            [sys.executable, *map(str, [*self.command(value, steps), *arguments])],
            env=variables, capture_output=True, text=True, preexec_fn=in_child, check=False,
        )  # fmt: skip
        if done.returncode:
            raise WorkerError(done.stderr[-2000:])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


class NoLimit:
    """Stands for a limit where the contestant's own variables set one."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def enter(self):
        """Called in the child before it becomes the program."""


def in_memory(limit):
    """A `limit` for LimitedTrial: so many bytes, and no swap."""
    return partial(MemoryGroup, limit)
