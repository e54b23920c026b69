# SPDX-License-Identifier: Apache-2.0
"""How fast programs train under a budget: ratios to stock and to tuned PyTorch.

Tuned is stock with tcmalloc preloaded, which keeps freed memory instead of giving it back to the
kernel. It is the reference, since most of what stock PyTorch loses on a CPU are page faults. The
programs lie in benchmarks/programs/ and know nothing of this.
"""

import argparse
import ctypes.util
import importlib.util
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import disk_rate
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
from report import PAGE, Report, size, table, verdict

# Room above the largest single op, so that something besides its operands can stay.
FLOOR_FACTOR = 1.15
# Steps may take what tuned PyTorch takes and this many times what the disk alone takes.
DISK_FACTOR = 1.3
ROUNDING_SHARE = 0.05


@dataclass(frozen=True)
class Program:
    title: str
    imports: tuple
    targets: dict  # by share of the peak (1: it fits): most times the tuned step
    steps: int = 1  # of one turn
    warm_up: int = 5  # steps, enough for the step to be recognised
    pairs: int = 1  # times those of the effort: short turns see more of the machine's noise
    arguments: tuple = ()


FITS = 1
BUDGETED = {FITS: 1.01, 0.5: 1.25, 0.3: 1.4}
PROGRAMS = {
    "unet3d": Program("3D U-Net 96^3, batch 2, AdamW", ("torch",), BUDGETED, steps=2),
    "resnet50": Program("ResNet-50 224^2, batch 32, SGD", ("torch", "torchvision"), BUDGETED),
    "gpt2": Program(
        "GPT-2 124M, batch 2, sequence 1024, AdamW", ("torch", "transformers"), BUDGETED
    ),
    "mlp": Program(
        "MLP 4 x 256, batch 64, SGD", ("torch",), {FITS: 1.02}, steps=200, warm_up=400, pairs=4
    ),
}  # fmt: skip
SMOKE_PROGRAMS = {
    "unet3d": replace(PROGRAMS["unet3d"], arguments=("--size", 32, "--batch", 1), warm_up=3),
    "mlp": replace(PROGRAMS["mlp"], steps=20, warm_up=40),
}


@dataclass(frozen=True)
class Effort:
    pairs: int
    disk_bytes: int
    shares: tuple = (FITS, 0.5, 0.3)


FULL = Effort(pairs=6, disk_bytes=1 << 30)
QUICK = Effort(pairs=3, disk_bytes=512 << 20)
SMOKE = Effort(pairs=1, disk_bytes=64 << 20, shares=(FITS, 0.5))


@dataclass(frozen=True)
class Needs:
    """What a run that only observes showed, in bytes."""

    peak: int
    floor: int

    def budget(self, share):
        return max(int(self.peak * share), int(self.floor * FLOOR_FACTOR))


@dataclass
class Row:
    """One contestant; times are ratios to the reference."""

    name: str
    ratio: Spread | None = None
    seconds: float = 0
    target: float | None = None
    bound: float | None = None
    moved: str = ""
    stall: str = ""
    resident: int = 0  # peak, less what the imports hold
    remarks: list = field(default_factory=list)
    failed: bool = False

    def line(self, stock):
        ratio = self.ratio.text() if self.ratio else "-"
        to_stock = f"{self.ratio.median / stock:.2f}" if self.ratio and stock else ""
        target = f"{self.target} {verdict(self.ratio.median, self.target)}" if self.target else ""
        bound = f"{self.bound:.2f} {verdict(self.ratio.median, self.bound)}" if self.bound else ""
        resident = size(self.resident) if self.resident else ""
        seconds = f"{self.seconds:.4g}" if self.seconds else ""
        return (self.name, seconds, ratio, to_stock, target, bound, self.moved, self.stall,
                resident, "; ".join(self.remarks))  # fmt: skip


HEAD = ("", "s per step", "to tuned", "to stock", "target", "disk bound", "moved per step", "stall",
        "peak resident", "")  # fmt: skip


def tcmalloc():
    return ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")


def resident_after(imports):
    """Bytes that a process holds which imports these and does nothing."""
    code = f"import {', '.join(imports)}\nprint(open('/proc/self/status').read())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=stock_environment(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


class Contest:
    """One program against itself: the reference stays, contestants come and go, turn by turn."""

    def __init__(self, name, program, effort, directory):
        self.name, self.program, self.effort = name, program, effort
        self.directory = directory
        self.idle = resident_after(program.imports)
        self.pairs = effort.pairs * program.pairs
        self.method = "not measured"

    def worker(self, environment):
        script = HERE / "programs" / f"{self.name}.py"
        arguments = [script, "--steps", 1_000_000_000, *self.program.arguments]
        return Worker("train_example.py", *arguments, environment=environment)

    def observe(self):
        with self.worker(environment(SPILLWAY_MODE="record")) as worker:
            counters = managed(worker.run(2, timeout=600)[1])
        return Needs(counters["peak_device_bytes"], counters["floor_bytes"])

    def against(self, reference, name, environment):
        """The row, and the turns it was made from."""
        try:
            with self.worker(environment) as other:
                other.run(self.program.warm_up, timeout=600)
                # `second` of a pair is the contestant.
                done = turns(reference, other, self.pairs, self.program.steps)
        except (TooSlowError, WorkerError) as error:
            return Row(name, remarks=[str(error).replace("\n", "; ")], failed=True), []
        row = Row(name, Spread.of([turn.ratio for turn in done]))
        print(f"{self.name}: {name}: {row.ratio.text()}", file=sys.stderr, flush=True)
        row.seconds = statistics.median(turn.second for turn in done)
        row.resident = max(done[-1].after["VmHWM"] - self.idle, 0)
        return row, done

    def spillway(self, reference, share, needs):
        budget = needs.budget(share)
        fits = share == FITS
        settings = {"SPILLWAY_BUDGET": "auto" if fits else str(budget)}
        name = "Spillway, auto" if fits else f"Spillway, {size(budget)} ({budget / needs.peak:.0%})"
        row, done = self.against(
            reference, name, environment(SPILLWAY_SPOOL_DIR=str(self.directory), **settings)
        )
        if not done:
            return row
        row.target = self.program.targets.get(share)
        first, last = managed(done[0].before), done[-1].after
        steps = len(done) * self.program.steps
        self.judge_memory(row, last, None if fits else budget)
        if not fits and budget > int(needs.peak * share):
            row.remarks.append(f"{FLOOR_FACTOR} x floor")
        written, read = (
            (last[key] - first[key]) / steps for key in ("disk_written_bytes", "disk_read_bytes")
        )
        stalled = (last["stall_ns"] - first["stall_ns"]) * 1e-9 / steps
        row.stall = f"{stalled / row.seconds:.0%}"
        if not fits:
            self.judge_speed(row, done, written, read)
            self.judge_moves(row, last, first, steps, needs.peak - budget)
        return row

    def judge_memory(self, row, last, budget):
        share = last["rounding_bytes"] / max(last["peak_device_bytes"], 1)
        row.remarks.append(f"rounding {share:.1%}" + " **above 5 %**" * (share > ROUNDING_SHARE))
        if budget and (last["peak_device_bytes"] > budget or last["overshoot_bytes"]):
            row.failed = True
            row.remarks.append(f"**over by {size(last['overshoot_bytes'])}**")

    def judge_speed(self, row, done, written, read):
        # In the same minute: the speed of a virtual disk is whatever its neighbours leave.
        rates = disk_rate.measure(self.directory, self.effort.disk_bytes)
        self.method = rates.method
        reference = statistics.median(turn.first for turn in done)
        row.bound = 1 + DISK_FACTOR * rates.seconds(written, read) / reference
        row.moved = f"{size(written)} out, {size(read)} in"
        row.remarks.append(f"disk {rates.write / 1e9:.2f} / {rates.read / 1e9:.2f} GB/s")

    @staticmethod
    def judge_moves(row, last, first, steps, excess):
        """A run that moved less than what does not fit was not managed: it proves nothing."""
        left = sum(last[key] - first[key] for key in ("evicted_bytes", "clean_evicted_bytes"))
        if left / steps < 0.9 * excess:
            row.failed = True
            row.remarks.append("**moved too little**")

    def rows(self):
        needs = self.observe()
        library = tcmalloc()
        tuned = {"LD_PRELOAD": library} if library else {}
        with self.worker(stock_environment(**tuned)) as reference:
            _, counters = reference.run(self.program.warm_up, timeout=600)
            found = []
            if library:
                found.append(self.against(reference, "stock", stock_environment())[0])
            found += [
                self.spillway(reference, share, needs)
                for share in self.effort.shares
                if share in self.program.targets
            ]
            seconds, counters = reference.run(self.program.steps, timeout=600)
        first = Row("tuned" if library else "stock (no libtcmalloc is installed)")
        first.ratio = Spread(1.0, 1.0, 1.0, 1)
        first.seconds = statistics.median(seconds)
        first.resident = max(counters["VmHWM"] - self.idle, 0)
        return needs, [first, *found]


def answer(name, program, contest, report):
    """Whether every row came about, kept its budget and moved what it had to."""
    needs, rows = contest.rows()
    stock = next((row.ratio for row in rows if row.name.startswith("stock")), None)
    stock = stock.median if stock else None
    what = " ".join(map(str, (f"benchmarks/programs/{name}.py", *program.arguments)))
    text = (
        f"`{what}`: tensors peak at {size(needs.peak)}; the largest single op needs "
        f"{size(needs.floor)} ({needs.floor / needs.peak:.0%}), the floor of any budget. Ratios "
        f"are medians of {contest.pairs} pairs of turns of {program.steps} step(s) with the "
        f"tuned program, after {program.warm_up} to warm up. `disk bound`: tuned plus "
        f"{DISK_FACTOR} times what the bytes moved take the disk alone, one after the other, at "
        f"the rates given in the row ({contest.method}; direct, 4 MiB, depth 8; in the same "
        f"minute). `peak resident` is less {size(contest.idle)} that the imports hold."
    )
    report.add(
        f"speed-{name}", f"How fast does it train: {program.title}?",
        [text, "", *table(HEAD, *(row.line(stock) for row in rows))],
    )  # fmt: skip
    return not any(row.failed for row in rows)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="*", help=f"of {', '.join(PROGRAMS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer pairs")
    parser.add_argument("--smoke", action="store_true", help="as short as possible")
    parser.add_argument("--share", type=float, action="append", help="of the peak; 1: it fits")
    parser.add_argument("--write", action="store_true", help="write the sections of the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to (docs/benchmarks.md)")
    parser.add_argument(
        "--directory", type=Path, default=Path(os.environ.get("TMPDIR", "/var/tmp")),
        help="of the spool: the disk that is measured",
    )  # fmt: skip
    arguments = parser.parse_args()
    unknown = set(arguments.program) - set(PROGRAMS)
    if unknown:
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    return arguments


def chosen(arguments):
    """The programs to run by name, those left out told."""
    found = {}
    programs = SMOKE_PROGRAMS if arguments.smoke else PROGRAMS
    for name in arguments.program or programs:
        program = programs.get(name, PROGRAMS[name])
        missing = [each for each in program.imports if not importlib.util.find_spec(each)]
        if missing:
            print(f"{name}: left out, {', '.join(missing)} not installed")
        else:
            found[name] = program
    return found


def main():
    arguments = parse_arguments()
    exit_on_signals()
    effort = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    if arguments.share:
        effort = replace(effort, shares=tuple(arguments.share))
    mode = ["--quick"] * arguments.quick + ["--smoke"] * arguments.smoke
    command = " ".join(["benchmarks/bench_speed.py", *arguments.program, *mode])
    report = Report(arguments.page if arguments.write else None, command, arguments.directory)
    failed = False
    for name, program in chosen(arguments).items():
        try:
            contest = Contest(name, program, effort, arguments.directory)
            failed |= not answer(name, program, contest, report)
        except (WorkerError, TooSlowError, OSError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
