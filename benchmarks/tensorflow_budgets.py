# SPDX-License-Identifier: Apache-2.0
"""Trains the TensorFlow programs at 50 and 30 % of their peak, and at the least budget.

python -m benchmarks.tensorflow_budgets [PROGRAM...] [--write] [--since YYYY-MM-DD]

Every run is compared bit for bit with stock TensorFlow's. The peak is that of a run in which all
fits; the least budget is found by halving, to a twentieth or 1 MiB. Times are those of whole
processes less TensorFlow's import: what is traced and built counts, for stock too.

All programs take half an hour. With --write each row is written when it is there, and rows of
other programs stay; with --since what has a row of this machine from that day on is left out, so a
run that was interrupted goes on.

Exit status 1 if a run gave other values, passed its budget, hung, or ended in another way than with
TensorFlow's ResourceExhaustedError. The budget is held against the allocator's count. These
programs take less than two runs of one program differ in TensorFlow's own memory, so
tensorflow_speed.py holds the resident set of larger ones against theirs.
"""

import argparse
import datetime
import importlib.util
import os
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.dated_table import DatedTable
from benchmarks.program_choice import add_page, add_program, check_programs, page_to_write
from benchmarks.report import Report, size, table
from tests.tensorflow.programs.table import PROGRAMS
from tests.tensorflow.runner import MIB, Server, differences

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tensorflow-programs.md"
SHARES = (0.5, 0.3)
AMPLE = "4GiB"
NOTHING_LEAVES = "1TiB"  # as the least size of what may
SECONDS = 120  # of one run; none takes a tenth of it alone


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program under a budget. Bytes and seconds."""

    budget: int
    trouble: str = ""  # a wrong one: what must not be
    trained: bool = False
    seconds: float = 0
    live: int = 0  # the most that was allocated at once
    resident: int = 0  # beyond a process that only imports
    moved: int = 0
    plans: int = 0


class Measurements:
    """One program: stock, with all it wants, and under budgets.

    `idle_bytes`: resident of a process that only imports.
    """

    def __init__(self, server, program, idle_bytes=0):
        self._server, self._program, self._idle = server, program, idle_bytes
        stock = [self._train() for _ in range(2)]
        self.stock = stock[0]
        self.stock_seconds = statistics.median(run.seconds for run in stock)
        self.ample = self.outcome(None)
        # Pages that lay idle could have been done without. Of few steps with many graphs none may
        # come to a plan, and everything copies: so the peak is that of a run in which nothing may.
        self.still = self.outcome(None, SPILLWAY_MIN_SIZE=NOTHING_LEAVES)
        self.peak = self.still.live
        self._known = {}

    def _train(self, **variables):
        return self._server.train(self._program, SECONDS, **variables)

    def outcome(self, budget, **variables):
        given = AMPLE if budget is None else str(budget)
        run = self._train(SPILLWAY_BUDGET=given, **variables)
        told = run.statistics
        trouble = self._trouble(run, budget)
        return Outcome(
            budget or 0, trouble, run.status == 0 and not trouble, run.seconds,
            told.get("peak_live_bytes", 0), max(0, run.resident_bytes - self._idle),
            told.get("evicted_bytes", 0) + told.get("fetched_bytes", 0), told.get("plans", 0),
        )  # fmt: skip

    def _trouble(self, run, budget):
        if run.status < 0:
            return f"ended by signal {-run.status} after {run.seconds:.0f} s"
        if run.status:
            refused = "ResourceExhaustedError" in run.errors
            return "" if refused else f"ended with status {run.status}: {run.errors[-300:]}"
        if different := differences(run, self.stock):
            return f"other values: {', '.join(different)}"
        if budget and run.statistics["peak_device_bytes"] > budget:
            return "went past its budget"
        return ""

    def at(self, budget):
        if budget not in self._known:
            self._known[budget] = self.outcome(budget)
        return self._known[budget]

    def least(self):
        """The outcome at the least budget that trained; None if 1.25 times the peak did not.

        Near it one run trains and another does not, so it may lie below where halving ended.
        """
        high, low = -(-self.peak * 5 // 4 // MIB) * MIB, 0
        if not self.at(high).trained:
            return None
        while high - low > max(MIB, high // 20):
            middle = (high + low) // 2 // MIB * MIB or MIB
            if middle in (low, high):
                break
            low, high = (low, middle) if self.at(middle).trained else (middle, high)
        return min(filter(trained, self._known.values()), key=lambda outcome: outcome.budget)

    def troubles(self):
        every = [self.ample, self.still, *self._known.values()]
        return [f"{self._program} at {size(o.budget)}: {o.trouble}" for o in every if o.trouble]


def trained(outcome):
    return outcome.trained


def cells(outcome, measured):
    """Time against stock, and what was moved."""
    if outcome is None:
        return "does not train"
    if outcome.trouble:
        return "**" + re.sub(r"\s+", " ", outcome.trouble)[:40] + "**"
    if not outcome.trained:
        return "does not fit"
    return f"{outcome.seconds / measured.stock_seconds:.2f} ({size(outcome.moved)})"


def row(program, measured, console=print):
    if not measured.ample.trained:
        return program, "", "", cells(measured.ample, measured), *[""] * 6
    shares = [measured.at(int(measured.peak * share)) for share in SHARES]
    least = measured.least()
    found = (
        program,
        size(measured.peak),
        f"{measured.stock_seconds:.1f}",
        f"{measured.ample.seconds / measured.stock_seconds:.2f}",
        *(cells(outcome, measured) for outcome in shares),
        size(least.budget) if least else "",
        f"{least.budget / measured.peak:.0%}" if least else "",
        cells(least, measured),
        size(least.resident) if least else "",
    )
    console(" | ".join(found), flush=True)
    return found


HEADS = (
    "program", "peak", "stock, s", "all fits", "50 %", "30 %", "least budget", "of the peak",
    "at the least", "resident then",
)  # fmt: skip


def measures(program):
    """Whether it can be measured: one that cannot move tensors trains only with its peak."""
    return importlib.util.find_spec(PROGRAMS[program].package) and PROGRAMS[program].swaps


def day(text):
    return datetime.date.fromisoformat(text).isoformat()


def measure(description, command, key, question, heads, rows_of):
    """Measures the programs that the command line names, row by row. Returns the exit status.

    `rows_of(server)` gives a function of a program's name, which returns its cells, whose texts it
    prints, and what must not be.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_program(parser, PROGRAMS)
    add_page(parser, PAGE)
    parser.add_argument(
        "--since", type=day, metavar="YYYY-MM-DD",
        help="leave out programs whose row in the page is of this machine and of that day or later",
    )  # fmt: skip
    options = parser.parse_args()
    check_programs(parser, options, PROGRAMS)
    framework = "tensorflow-cpu"
    kept = DatedTable(options.page, key, question, heads, PROGRAMS, framework)
    rows, troubles = [heads], []
    with Server() as server:
        row_of = rows_of(server)
        for program in filter(measures, options.program or PROGRAMS):
            if options.since and kept.is_measured(program, options.since):
                continue
            cells, wrong = row_of(program)
            rows.append(cells)
            troubles += wrong
            if page_to_write(options):
                kept.put(cells)
    Report(None, command, os.getcwd(), framework).add(key, question, table(*rows))
    print(*troubles, sep="\n")
    return 1 if troubles else 0


def rows_of(server):
    idle = server.train(None, SECONDS).resident_bytes

    def row_of(program):
        measured = Measurements(server, program, idle)
        return row(program, measured), measured.troubles()

    return row_of


def main():
    question = "How little do they train with?"
    return measure(__doc__, "make tensorflow-budgets", "budgets", question, HEADS, rows_of)


if __name__ == "__main__":
    sys.exit(main())
