# SPDX-License-Identifier: Apache-2.0
"""Runs an example in several ways and prints the table, for the demos of every framework."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
STEP = re.compile(r"step (\d+) loss (\S+)")
# Room above the largest single op, so that something besides its operands can stay.
FLOOR_FACTOR = 1.15


@dataclass(frozen=True)
class Demo:
    title: str
    script: str
    steps: int
    share: float
    auto_steps: int  # of the first steps, the fourth run repeats so many


@dataclass
class Run:
    """The output of one training, and its memory and time."""

    seconds: list  # between the reports of successive steps
    losses: list  # as hexadecimal text
    weights: str  # SHA-256
    notes: list  # what else it printed
    resident_bytes: int  # largest resident set of the process
    wall_seconds: float
    stats: dict  # of Spillway; empty for the stock run

    @property
    def step_seconds(self):
        """Median without the first step, which warms up."""
        return statistics.median(self.seconds) if self.seconds else float("nan")


class RunError(Exception):
    """A run that did not end as it should; the text is for people.

    `status` and `complaints`, the whole of standard error, are those of a program that failed.
    """

    def __init__(self, text, status=0, complaints=()):
        super().__init__(text)
        self.status, self.complaints = status, complaints


class Trainer:
    """Runs one example in several ways."""

    def __init__(self, demo, arguments, folder, console):
        self.demo, self.arguments, self.folder, self.console = demo, arguments, folder, console

    def run(self, name, steps, prefix=(), environment=None, stats=None, stop=None):
        """All steps, or the first `stop`. Raises RunError with the program's last words."""
        script = ROOT / "examples" / self.demo.script / "train.py"
        command = [*prefix, sys.executable, str(script), "--steps", str(steps)]
        command += ["--seed", str(self.arguments.seed), "--out", str(self.folder / name)]
        if stop:
            command += ["--stop", str(stop)]
        if self.arguments.size:
            command += ["--size", str(self.arguments.size)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
        if stats:
            stats.unlink(missing_ok=True)
        begin = time.monotonic()
        child = subprocess.Popen(
            command,
            env={**clean, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            lines, complaints = self.follow(child, name, stop or steps)
            # wait4 instead of wait: the resident set includes that of a grandchild.
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if child.returncode is None:
                child.kill()
                child.wait()
        wall = time.monotonic() - begin
        if child.returncode:
            last = "".join(complaints[-15:])
            text = f"{name}: exit status {child.returncode}\n{last}"
            raise RunError(text, child.returncode, complaints)
        return self.result(name, lines, usage.ru_maxrss * 1024, wall, stats)

    def follow(self, child, name, steps):
        """The lines of standard output with their times, and those of standard error."""
        complaints = []
        # A thread, so that neither pipe can fill while the other is read.
        drain = threading.Thread(target=lambda: complaints.extend(child.stderr), daemon=True)
        drain.start()
        lines = []
        with self.console.status(f"{name}: loading") as status:
            for line in child.stdout:
                lines.append((time.monotonic(), line.rstrip("\n")))
                step = STEP.match(line)
                if step:
                    status.update(f"{name}: step {step[1]} of {steps}, loss {step[2]}")
        drain.join()
        return lines, complaints

    def result(self, name, lines, resident, wall, stats):
        times = [when for when, line in lines if STEP.match(line)]
        seconds = [after - before for before, after in pairwise(times)]
        rest = [line for _, line in lines if not STEP.match(line)]
        losses = [line.split()[1:] for line in rest if line.startswith("losses ")]
        weights = [line.split()[-1] for line in rest if line.startswith("weights sha256 ")]
        if len(losses) != 1 or len(weights) != 1:
            raise RunError(f"{name}: printed no losses or no weights' hash")
        notes = [line for line in rest if not line.startswith(("losses ", "weights ", "picture "))]
        counters = {}
        if stats:
            if not stats.exists():
                raise RunError(
                    f"{name}: no statistics were written. Is the spillway package installed in "
                    f"{sys.executable}? `spillway doctor` tells."
                )
            counters = json.loads(stats.read_text(encoding="utf-8"))
        return Run(seconds, losses[0], weights[0], notes, resident, wall, counters)


@dataclass(frozen=True)
class Budget:
    """How many bytes the demo allows, and why. All in bytes; a floor of 0 is not known."""

    peak: int
    floor: int
    share: float

    @property
    def of_peak(self):
        return int(self.peak * self.share)

    @property
    def of_floor(self):
        return int(self.floor * FLOOR_FACTOR)

    @property
    def granted(self):
        return max(self.of_peak, self.of_floor)

    @property
    def binding(self):
        return "peak" if self.of_peak >= self.of_floor else "floor"

    def lines(self):
        share = f"{self.share:.0%} of the peak"
        marks = ("<- binds", "") if self.binding == "peak" else ("", "<- binds")
        peak = f"  peak   {size(self.peak):>10}   {share:<21} {size(self.of_peak):>10} {marks[0]}"
        floor = (
            f"  floor  {size(self.floor):>10}   {FLOOR_FACTOR} times the floor  "
            f"{size(self.of_floor):>10} {marks[1]}"
        )
        budget = f"  budget {size(self.granted):>10}   {self.granted / self.peak:.0%} of the peak"
        return (peak, floor, budget) if self.floor else (peak, budget)


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def columns_of(values, columns, combine):
    """As many numbers as there are columns, or fewer: each of some values in a row."""
    columns = min(columns, len(values))
    bounds = [index * len(values) // columns for index in range(columns + 1)]
    return [combine(values[a:b]) for a, b in pairwise(bounds)]


def bars(values):
    """A line of bars, from the least value to the most."""
    low, span = min(values), max(values) - min(values) or 1
    return "".join("▁▂▃▄▅▆▇█"[round((value - low) / span * 7)] for value in values)


def sparkline(losses, columns=12):
    values = [float.fromhex(loss) for loss in losses]
    return bars(columns_of(values, columns, statistics.fmean))


def loss_text(loss):
    return f"{float.fromhex(loss):.4f}"


def equal_losses(stock, managed, auto):
    return stock.losses == managed.losses and stock.losses[: len(auto.losses)] == auto.losses


def comparison(stock, managed, auto, budget):
    """Rows of name, stock, under the budget, auto, remark."""
    runs = (managed, auto)
    steps = len(stock.losses)
    moved = [run.stats["evicted_bytes"] + run.stats["fetched_bytes"] for run in runs]
    peak = managed.stats["peak_device_bytes"]

    def row(name, value, of_stock="", remark=""):
        return (name, of_stock, *map(value, runs), remark)

    rows = [
        row(
            "tensor memory, peak", lambda run: size(run.stats["peak_device_bytes"]),
            size(budget.peak), f"{peak / budget.peak:.0%}",
        ),
        row(
            "budget", lambda run: size(run.stats["budget_bytes"]), "none",
            "kept" if within(managed, budget) and not overshot(auto) else "EXCEEDED",
        ),
        row("resident set, peak", lambda run: size(run.resident_bytes), size(stock.resident_bytes)),
        row("seconds per step", lambda run: f"{run.step_seconds:.2f}", f"{stock.step_seconds:.2f}"),
        row("times stock", lambda run: f"{run.step_seconds / stock.step_seconds:.2f}", "1.00"),
        ("moved", "0 B", *map(size, moved), ""),
        ("moved per step", "0 B", *(size(m / len(r.losses)) for m, r in zip(moved, runs)), ""),
        row("disk written", lambda run: counted(run, "disk_written_bytes"), "0 B"),
        row("disk read", lambda run: counted(run, "disk_read_bytes"), "0 B"),
        row("waited for moves", lambda run: f"{run.stats['stall_ns'] / 1e9:.1f} s"),
        ("loss, first step", *(loss_text(run.losses[0]) for run in (stock, *runs)), ""),
        (
            "loss, last step", loss_text(stock.losses[-1]), loss_text(managed.losses[-1]), "",
            f"{steps} steps",
        ),
        (
            "loss", sparkline(stock.losses), sparkline(managed.losses), "",
            "equal" if equal_losses(stock, managed, auto) else "DIFFERENT",
        ),
        (
            "weights, SHA-256", stock.weights[:12], managed.weights[:12], "",
            "equal" if stock.weights == managed.weights else "DIFFERENT",
        ),
    ]  # fmt: skip
    return [row for row in rows if None not in row]


def counted(run, name):
    """Bytes as text; None where the adapter has no such counter."""
    return size(run.stats[name]) if name in run.stats else None


def overshot(run):
    return bool(run.stats.get("overshoot_bytes"))


def within(managed, budget):
    return managed.stats["peak_device_bytes"] <= budget.granted and not overshot(managed)


def show(demo, rows, auto_steps, console):
    table = Table(title=f"{demo.title}: the same program", width=80, title_justify="left")
    table.add_column("", no_wrap=True)
    for name in ("stock", "budget", f"auto, {auto_steps} steps"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        bad = row[-1] in ("DIFFERENT", "EXCEEDED")
        good = row[-1] in ("equal", "kept")
        table.add_row(*row[:-1], row[-1], style="bold red" if bad else "green" if good else "")
    console.print(table)


def summary(runs, budget, rows, kept):
    observed, stock, managed, auto = runs

    def of_each(value):
        return {"stock": value(stock), "spillway": value(managed), "auto": value(auto)}

    return {
        "peak_bytes": budget.peak,
        "floor_bytes": budget.floor,
        "budget_bytes": budget.granted,
        "budget_binds": budget.binding,
        "within_budget": within(managed, budget) and not overshot(auto),
        "equal_weights": stock.weights == managed.weights,
        "equal_losses": equal_losses(stock, managed, auto),
        "weights_sha256": {"stock": stock.weights, "spillway": managed.weights},
        "losses_hex": of_each(lambda run: run.losses),
        "step_seconds": of_each(lambda run: run.step_seconds),
        "wall_seconds": of_each(lambda run: run.wall_seconds),
        "resident_bytes": of_each(lambda run: run.resident_bytes),
        "stats": {"observed": observed.stats, "spillway": managed.stats, "auto": auto.stats},
        "files": kept,
        "table": rows,
    }


def passed(result):
    return result["within_budget"] and result["equal_weights"] and result["equal_losses"]


def write_summary(results, out, console):
    path = out / "summary.json"
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    console.print(f"written {path}", highlight=False, markup=False)


def add_arguments(parser):
    """Those of every demo."""
    parser.add_argument("--steps", type=int, help="of the two compared runs")
    parser.add_argument("--auto-steps", type=int, help="of the run under auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, help="budget as a share of the peak, e.g. 0.5")


def check_share(parser, arguments):
    if arguments.share is not None and not 0 < arguments.share <= 1:
        parser.error("--share must be above 0 and at most 1")


def end_on_sigterm():
    """Stopped from outside, the run in progress must be stopped too: by the finally of run()."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
