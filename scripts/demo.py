# SPDX-License-Identifier: Apache-2.0
"""Trains an example in several ways and shows the runs side by side.

1. observed: a few steps under SPILLWAY_MODE=record, which evicts nothing and measures the peak and
   the floor;
2. stock: PyTorch alone, for the time, the losses and the weights to compare with;
3. Spillway: the same program under a budget of 30 % (text: 25 %) of the measured peak, or 1.15
   times the floor where that is more;
4. auto: the first steps again under SPILLWAY_BUDGET=auto, where all fits: what it gains in speed.

Exit status 1 if the weights or losses differ, the budget was exceeded, or a run failed.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rich.console import Console
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


DEMOS = {
    "brain": Demo("brain segmentation, 3D U-Net", "brain_segmentation", 40, 0.30, 8),
    "text": Demo("GPT on bytes, 24.3 M parameters", "byte_gpt", 150, 0.25, 30),
}


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
    """A run that did not end as it should; the text is for people."""


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
            raise RunError(f"{name}: exit status {child.returncode}\n{complaints}")
        return self.result(name, lines, usage.ru_maxrss * 1024, wall, stats)

    def follow(self, child, name, steps):
        """The lines of standard output with their times, and the end of standard error."""
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
        return lines, "".join(complaints[-15:])

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
    """How many bytes the demo allows, and why. All in bytes."""

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
        return (
            f"  peak   {size(self.peak):>10}   {share:<21} {size(self.of_peak):>10} {marks[0]}",
            f"  floor  {size(self.floor):>10}   {FLOOR_FACTOR} times the floor  "
            f"{size(self.of_floor):>10} {marks[1]}",
            f"  budget {size(self.granted):>10}   {self.granted / self.peak:.0%} of the peak",
        )


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def sparkline(losses, columns=12):
    values = [float.fromhex(loss) for loss in losses]
    columns = min(columns, len(values))
    bounds = [index * len(values) // columns for index in range(columns + 1)]
    means = [statistics.fmean(values[a:b]) for a, b in pairwise(bounds)]
    low, span = min(means), max(means) - min(means) or 1
    return "".join("▁▂▃▄▅▆▇█"[round((mean - low) / span * 7)] for mean in means)


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

    return [
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
        row("disk written", lambda run: size(run.stats["disk_written_bytes"]), "0 B"),
        row("disk read", lambda run: size(run.stats["disk_read_bytes"]), "0 B"),
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


def keep_results(name, folder, out):
    """Copies what the managed run made to `out`, named after the demo."""
    kept = []
    for path in sorted((folder / "managed").glob("*.*")):
        if path.suffix in (".png", ".txt"):
            target = out / f"{name}-{path.name}"
            shutil.copyfile(path, target)
            kept.append(str(target))
    return kept


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


def measure(name, arguments, console):
    """The summary of one demo; raises RunError."""
    demo = DEMOS[name]
    steps = arguments.steps or demo.steps
    folder = arguments.out / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(demo, arguments, folder, console)
    console.rule(demo.title)

    stats = folder / "observed.json"
    environment = {"SPILLWAY_MODE": "record", "SPILLWAY_STATS": str(stats)}
    observed = trainer.run("observed", min(steps, arguments.observe_steps), (), environment, stats)
    share = arguments.share or demo.share
    budget = Budget(observed.stats["peak_device_bytes"], observed.stats["floor_bytes"], share)
    if not budget.peak:
        raise RunError("observed: the statistics show no tensor memory at all")
    for line in budget.lines():
        console.print(line, highlight=False)

    # Nothing of ours is even loaded into the run that the other one is compared with.
    stock = trainer.run("stock", steps, environment={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    stats = folder / "managed.json"
    prefix = [arguments.spillway, "run", "--budget", str(budget.granted), "--stats", str(stats)]
    prefix += ["--status", "off", "--summary", "off", "--"]
    managed = trainer.run("managed", steps, prefix, stats=stats)

    stats = folder / "auto.json"
    environment = {"SPILLWAY_BUDGET": "auto", "SPILLWAY_STATS": str(stats)}
    stop = min(steps, arguments.auto_steps or demo.auto_steps)
    auto = trainer.run("auto", steps, (), environment, stats, stop)

    rows = comparison(stock, managed, auto, budget)
    show(demo, rows, stop, console)
    for note in managed.notes:
        console.print(note, highlight=False, markup=False)
    kept = keep_results(name, folder, arguments.out)
    for path in kept:
        console.print(f"written {path}", highlight=False, markup=False)
    return summary((observed, stock, managed, auto), budget, rows, kept)


def find_spillway():
    beside = Path(sys.executable).parent / "spillway"
    return str(beside) if beside.exists() else shutil.which("spillway")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", nargs="?", choices=[*DEMOS, "all"], default="all")
    parser.add_argument("--steps", type=int, help="of the two compared runs")
    parser.add_argument("--observe-steps", type=int, default=4, help="of the observed run")
    parser.add_argument("--auto-steps", type=int, help="of the run under auto")
    parser.add_argument("--size", type=int, help="of a crop or of the context")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, help="budget as a share of the peak, e.g. 0.5")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo")
    parser.add_argument("--spillway", default=find_spillway(), help="the command to use")
    arguments = parser.parse_args()
    if not arguments.spillway:
        parser.error("no spillway command beside this Python or on PATH; see docs/demo.md")
    if arguments.share is not None and not 0 < arguments.share <= 1:
        parser.error("--share must be above 0 and at most 1")
    return arguments


def main():
    # Stopped from outside, the run in progress must be stopped too: through the finally of run().
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = parse_arguments()
    console = Console(width=80)
    arguments.out.mkdir(parents=True, exist_ok=True)
    results, passed = {}, True
    for name in DEMOS if arguments.demo == "all" else (arguments.demo,):
        begin = time.monotonic()
        try:
            result = measure(name, arguments, console)
        except RunError as failure:
            console.print(f"{name}: {failure}", style="bold red", highlight=False, markup=False)
            passed = False
            continue
        took = time.monotonic() - begin
        results[name] = result | {"seconds_of_all_runs": took}
        console.print(f"all four runs took {took / 60:.1f} min", highlight=False)
        passed &= result["within_budget"] and result["equal_weights"] and result["equal_losses"]
    path = arguments.out / "summary.json"
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    console.print(f"written {path}", highlight=False, markup=False)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
