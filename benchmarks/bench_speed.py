# SPDX-License-Identifier: Apache-2.0
"""How fast programs train under a budget: ratios to stock and to tuned PyTorch.

Tuned is stock with tcmalloc preloaded, which keeps freed memory instead of giving it back to the
kernel. It is the reference, since most of what stock PyTorch loses on a CPU are page faults. The
programs lie in benchmarks/programs/ and know nothing of this.
"""

import argparse
import ctypes.util
import statistics
import subprocess
import sys
from dataclasses import dataclass, field, replace
from operator import itemgetter

import disk_rate
from paired_runs import (
    HERE,
    Spread,
    TooSlowError,
    Worker,
    WorkerError,
    environment,
    exit_on_signals,
    gained,
    managed,
    stock_environment,
    turns,
)
from program_choice import (
    add_directory,
    add_page,
    add_program,
    check_programs,
    is_installed,
    page_to_write,
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
    rounds: int = 1  # times those of the effort: short turns see more of the machine's noise
    pairs: int = 1  # likewise
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
        "MLP 4 x 256, batch 64, SGD", ("torch",), {FITS: 1.02}, steps=150, warm_up=400, rounds=12,
    ),
}  # fmt: skip
SMOKE_PROGRAMS = {
    "unet3d": replace(PROGRAMS["unet3d"], arguments=("--size", 32, "--batch", 1), warm_up=3),
    "mlp": replace(PROGRAMS["mlp"], steps=20, warm_up=40),
}


@dataclass(frozen=True)
class Effort:
    # Where its memory came to lie stays with a process for life and makes some percent, so each
    # round starts all processes anew.
    rounds: int
    pairs: int  # of a round
    disk_bytes: int
    shares: tuple = (FITS, 0.5, 0.3)


FULL = Effort(rounds=3, pairs=2, disk_bytes=1 << 30)
QUICK = Effort(rounds=3, pairs=1, disk_bytes=512 << 20)
SMOKE = Effort(rounds=1, pairs=1, disk_bytes=64 << 20, shares=(FITS, 0.5))


@dataclass(frozen=True)
class Needs:
    """Figures of a run that only observes, in bytes."""

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


@dataclass
class Contestant:
    """A contestant beside the tuned program, with its figures."""

    name: str
    environment: dict
    target: float | None = None  # None: it is no Spillway
    budget: int | None = None  # bytes; None: everything fits
    remarks: list = field(default_factory=list)
    rounds: list = field(default_factory=list)  # of lists of turns
    rates: list = field(default_factory=list)  # of the disk, one a round
    error: str = ""

    def gained(self, counter):
        """By how much the counter grew while turns were taken."""
        return gained(self.rounds, itemgetter(counter))


class Contest:
    """One program against itself: the reference stays, contestants come and go, turn by turn."""

    def __init__(self, name, program, effort, directory):
        self.name, self.program, self.effort = name, program, effort
        self.directory = directory
        self.idle = resident_after(program.imports)
        self.rounds = effort.rounds * program.rounds
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

    def contestants(self, needs, tuned):
        """All but the reference."""
        found = [Contestant("stock", stock_environment())] if tuned else []
        for share in self.effort.shares:
            if share not in self.program.targets:
                continue
            budget = None if share == FITS else needs.budget(share)
            fit = f"{size(budget)} ({budget / needs.peak:.0%})" if budget else "auto"
            settings = {"SPILLWAY_BUDGET": f"cpu:{budget or 'auto'}"}
            contestant = Contestant(
                f"Spillway, {fit}",
                environment(SPILLWAY_SPOOL_DIR=str(self.directory), **settings),
                self.program.targets[share],
                budget,
            )
            if budget and budget > int(needs.peak * share):
                contestant.remarks.append(f"{FLOOR_FACTOR} x floor")
            found.append(contestant)
        return found

    def take_turns(self, reference, contestant):
        """One round of one contestant."""
        try:
            with self.worker(contestant.environment) as other:
                other.run(self.program.warm_up, timeout=600)
                # `second` of a pair is the contestant.
                # The mean where something moves: the last step has the transfers of all.
                done = turns(
                    reference, other, self.pairs, self.program.steps,
                    centre=statistics.fmean if contestant.budget else statistics.median,
                    second_begins=len(contestant.rounds) % 2 == 1,
                )  # fmt: skip
        except (TooSlowError, WorkerError) as error:
            contestant.error = str(error).replace("\n", "; ")
            return
        contestant.rounds.append(done)
        if contestant.budget:
            # In the same minute: the speed of a virtual disk is whatever its neighbours leave.
            contestant.rates.append(disk_rate.measure(self.directory, self.effort.disk_bytes))
        ratios = " ".join(f"{turn.ratio:.2f}" for turn in done)
        print(f"{self.name}: {contestant.name}: {ratios}", file=sys.stderr, flush=True)

    def row(self, contestant, excess):
        """`excess`: bytes that must leave in each step."""
        if contestant.error:
            return Row(contestant.name, remarks=[contestant.error], failed=True)
        done = [turn for turns_of in contestant.rounds for turn in turns_of]
        row = Row(contestant.name, Spread.of([turn.ratio for turn in done]))
        row.seconds = statistics.median(turn.second for turn in done)
        row.resident = max(max(turn.after["VmHWM"] for turn in done) - self.idle, 0)
        row.target = contestant.target
        row.remarks += contestant.remarks
        if contestant.target is None:
            return row
        steps = len(done) * self.program.steps
        self.judge_memory(row, managed(done[-1].after), contestant.budget)
        stalled = contestant.gained("stall_ns") * 1e-9 / steps
        row.stall = f"{stalled / row.seconds:.0%}"
        if contestant.budget:
            self.judge_speed(row, contestant, steps)
            left = contestant.gained("evicted_bytes") + contestant.gained("clean_evicted_bytes")
            # A run that moved less than what does not fit was not managed: it proves nothing.
            if left / steps < 0.9 * excess:
                row.failed = True
                row.remarks.append("**moved too little**")
        return row

    @staticmethod
    def judge_memory(row, last, budget):
        share = last["rounding_bytes"] / max(last["peak_device_bytes"], 1)
        row.remarks.append(f"rounding {share:.1%}")
        if share > ROUNDING_SHARE:
            row.failed = True
            row.remarks.append(f"**rounding above {ROUNDING_SHARE:.0%}**")
        if budget and (last["peak_device_bytes"] > budget or last["overshoot_bytes"]):
            row.failed = True
            row.remarks.append(f"**over by {size(last['overshoot_bytes'])}**")

    def judge_speed(self, row, contestant, steps):
        written = contestant.gained("disk_written_bytes") / steps
        read = contestant.gained("disk_read_bytes") / steps
        self.method = contestant.rates[-1].method
        seconds = statistics.median(rates.seconds(written, read) for rates in contestant.rates)
        write, read_rate = (
            statistics.median(getattr(rates, way) for rates in contestant.rates) / 1e9
            for way in ("write", "read")
        )
        reference = statistics.median(
            turn.first for turns_of in contestant.rounds for turn in turns_of
        )
        row.bound = 1 + DISK_FACTOR * seconds / reference
        row.moved = f"{size(written)} out, {size(read)} in"
        row.remarks.append(f"disk {write:.2f} / {read_rate:.2f} GB/s")

    def rows(self):
        needs = self.observe()
        library = tcmalloc()
        tuned = {"LD_PRELOAD": library} if library else {}
        contestants = self.contestants(needs, tuned)
        first = Row("tuned" if library else "stock (no libtcmalloc is installed)")
        seconds = []
        for _ in range(self.rounds):
            with self.worker(stock_environment(**tuned)) as reference:
                reference.run(self.program.warm_up, timeout=600)
                for contestant in contestants:
                    if not contestant.error:
                        self.take_turns(reference, contestant)
                measured, counters = reference.run(self.program.steps, timeout=600)
                seconds += measured
                first.resident = max(first.resident, counters["VmHWM"] - self.idle)
        first.ratio = Spread(1.0, 1.0, 1.0, 1)
        first.seconds = statistics.median(seconds)
        rows = [self.row(each, needs.peak - (each.budget or needs.peak)) for each in contestants]
        return needs, [first, *rows]


def answer(name, program, contest, report):
    """Whether every row came about, kept its budget and moved what it had to."""
    needs, rows = contest.rows()
    stock = next((row.ratio for row in rows if row.name.startswith("stock")), None)
    stock = stock.median if stock else None
    what = " ".join(map(str, (f"benchmarks/programs/{name}.py", *program.arguments)))
    text = (
        f"`{what}`: tensors peak at {size(needs.peak)}; the largest single op needs "
        f"{size(needs.floor)} ({needs.floor / needs.peak:.0%}); the imports hold "
        f"{size(contest.idle)}. {contest.rounds} rounds of {contest.pairs} pair(s) of turns of "
        f"{program.steps} step(s), after {program.warm_up} to warm up. Rates of the disk: "
        f"{contest.method} ([columns](#speed-tables))."
    )
    report.add(
        f"speed-{name}", f"How fast does it train: {program.title}?",
        [text, "", *table(HEAD, *(row.line(stock) for row in rows))],
    )  # fmt: skip
    return not any(row.failed for row in rows)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser, PROGRAMS)
    parser.add_argument("--quick", action="store_true", help="fewer pairs")
    parser.add_argument("--smoke", action="store_true", help="as short as possible")
    parser.add_argument("--share", type=float, action="append", help="of the peak; 1: it fits")
    add_page(parser, PAGE)
    add_directory(parser, "the spool")
    arguments = parser.parse_args()
    check_programs(parser, arguments, PROGRAMS)
    return arguments


def chosen(arguments):
    """The programs to run by name, those left out told."""
    found = {}
    programs = SMOKE_PROGRAMS if arguments.smoke else PROGRAMS
    for name in arguments.program or programs:
        program = programs.get(name, PROGRAMS[name])
        if is_installed(name, program.imports):
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
    report = Report(page_to_write(arguments), command, arguments.directory)
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
