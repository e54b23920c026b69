# SPDX-License-Identifier: Apache-2.0
"""How much slower a TensorFlow program is with less memory than it wants: ratios to stock.

Programs of benchmarks/programs_keras/, unchanged: where all fits, and at half and 30 % of their
peak, with the planner that there is where nobody names one, and with none. They take turns with
stock TensorFlow.
"""

import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import disk_rate
from bench_budget import HEAD, Row
from limited_trial import UNENDING, say
from paired_runs import (
    HERE,
    Spread,
    TooSlowError,
    Worker,
    WorkerError,
    environment,
    exit_on_signals,
    managed,
    stock_environment,
    turns,
)
from program_choice import page_to_write, parse_choice
from report import PAGE, Report, size, table

SHARES = (0.5, 0.3)  # of the peak
PLANNERS = ("", "none")  # hybrid, and what there is without
STEPS = 3  # of a turn: stock's own take up to three times as long as others
AMPLE = 16 << 30
# A planner plans after a step or two were measured, then 4 and 8 steps later.
WARM_STEPS = 16
PAIRS = 5
PATIENCE = 400  # seconds; TensorFlow traces for half a minute, and the disk may be slow
DISK_BYTES = 512 << 20  # for its rates
FAULT_STEPS = 3
# Two runs of one program have so much more or less of TensorFlow's own memory: a third of what the
# least of the budgets takes away.
RESIDENT_SLACK = 64 << 20


@dataclass(frozen=True)
class Program:
    title: str
    arguments: tuple

    def command(self):
        return " ".join(map(str, self.arguments))


PROGRAMS = {
    "gpt": Program("a transformer of 6 layers of 256", ("gpt.py", "--batch", 16)),
    "resnet50": Program("ResNet-50 64^2", ("resnet50.py", "--size", 64, "--batch", 64)),
    "unet3d": Program("a 3D U-Net 64^3", ("unet3d.py", "--size", 64, "--batch", 1)),
}


def faults_per_step(worker):
    """Pages that the kernel gave the process, zeroed, or found for it, without the disk."""
    before, after = (worker.run(steps, PATIENCE)[1]["page_faults"] for steps in (1, FAULT_STEPS))
    return (after - before) / FAULT_STEPS


def peaks_of_plan(written):
    """The most that tensors held in the last step measured under a plan, beside the plan's own.
    `written`: the statistics of a run; there are none if it had to be killed.
    """
    told = json.loads(written.read_text()) if written.exists() else {}
    predicted, measured = (told.get(f"{name}_peak_bytes") for name in ("predicted", "measured"))
    if not predicted or not measured:
        return ""
    return f", step {size(measured)}, predicted {size(predicted)}"


class Contest:
    """One program against itself: a stock worker that stays, contestants that come and go."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.faults = {}  # per step, of stock and of each contestant
        self.own = None  # bytes that are resident beside tensors where all fits

    def rows(self):
        """Returns the peak, and a row for each contestant. Raises WorkerError, TooSlowError."""
        with self._worker(stock_environment()) as stock:
            stock.run(WARM_STEPS, PATIENCE)
            self.faults = {"stock": faults_per_step(stock)}
            rows = [self._against(stock, "all fits", AMPLE, "")]
            peak = rows[0].peak
            rows.append(self._against(stock, "all fits, none", AMPLE, "none"))
            for share in SHARES:
                for planner in PLANNERS:
                    rows.append(self._within(stock, peak, share, planner))
                    say("  " + " | ".join(map(str, rows[-1].line())))
            return peak, rows

    def _within(self, stock, peak, share, planner):
        budget = int(peak * share)
        name = f"{size(budget)} ({share:.0%}){', ' * bool(planner)}{planner}"
        try:
            return self._against(stock, name, budget, planner)
        except TooSlowError as error:
            return Row(name, remark=f"given up: {error}")
        except WorkerError as error:
            if not re.search("ResourceExhausted|OOM when allocating", str(error)):
                raise
            return Row(name, remark="does not fit")

    def _against(self, stock, name, budget, planner):
        named = {"SPILLWAY_PLANNER": planner} if planner else {}
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder, "statistics.json")
            variables = environment(
                SPILLWAY_BUDGET=str(budget), SPILLWAY_SPOOL_DIR=str(self.directory),
                SPILLWAY_SUMMARY="0", SPILLWAY_STATS=str(told), **named,
            )  # fmt: skip
            with self._worker(variables) as other:
                other.run(WARM_STEPS, PATIENCE)
                done = turns(stock, other, PAIRS, STEPS, least=PATIENCE)
                self.faults[name] = faults_per_step(other)
            peaks = peaks_of_plan(told)
        first, last = managed(done[0].before), done[-1].after
        written, read = (
            (last[name] - first[name]) / (STEPS * len(done))
            for name in ("evicted_bytes", "fetched_bytes")
        )
        # In the same minute: the speed of a virtual disk is whatever its neighbours leave.
        rates = disk_rate.measure(self.directory, DISK_BYTES)
        ratio = Spread.of([turn.ratio for turn in done])
        stock_step = Spread.of([turn.first for turn in done]).median
        return Row(
            name, ratio, moved=written + read, bound=rates.seconds(written, read) / stock_step,
            peak=last["peak_device_bytes"],
            remark=self._resident(last, budget) + peaks,
        )  # fmt: skip

    def _resident(self, counters, budget):
        """The process's own memory beside the budget: no more than where all fits."""
        if self.own is None:
            self.own = counters["VmHWM"] - counters["peak_device_bytes"]
        over = counters["VmHWM"] > budget + self.own + RESIDENT_SLACK
        mark = "**" * (over or counters["peak_device_bytes"] > budget)
        return f"{mark}resident {size(counters['VmHWM'])}{mark}"

    def _worker(self, variables):
        script, *arguments = self.program.arguments
        command = [HERE / "programs_keras" / script, "--steps", UNENDING, *arguments]
        return Worker("train_example.py", *command, environment=variables)


def answer(name, program, directory, report):
    """Adds the program's section. Raises WorkerError, TooSlowError."""
    contest = Contest(program, directory)
    peak, rows = contest.rows()
    faults = "; ".join(f"{who} {count:,.0f}" for who, count in contest.faults.items())
    text = (
        f"`{program.command()}`: tensors peak at {size(peak)} where all fits. Turns of {STEPS} "
        f"steps after {WARM_STEPS} to warm up, the median of each. `disk bound`: the time that the "
        f"disk alone needs for what moved, in stock steps, at the rates that it gave just then. "
        f"Page faults per step: {faults}. `resident`: the process at most; bold if tensors pass "
        f"the budget, or all of it the budget by {size(RESIDENT_SLACK)} more than what lies beside "
        f"tensors where all fits. `step`: what tensors held at most in the last step measured "
        f"under a plan, beside what the plan predicted; stored variables are in neither."
    )
    report.add(
        f"tensorflow-speed-{name}", f"What does less memory cost in TensorFlow: {program.title}?",
        [text, "", *table(HEAD, *(row.line() for row in rows))],
    )  # fmt: skip


def main():
    arguments = parse_choice(__doc__, PROGRAMS, PAGE, "the spool")
    exit_on_signals()
    command = "make tensorflow-speed"
    report = Report(page_to_write(arguments), command, arguments.directory, "tensorflow-cpu")
    failed = False
    for name in arguments.program or PROGRAMS:
        say(f"{name}: {PROGRAMS[name].title}")
        try:
            answer(name, PROGRAMS[name], arguments.directory, report)
        except (WorkerError, TooSlowError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
