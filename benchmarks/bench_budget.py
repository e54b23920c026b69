# SPDX-License-Identifier: Apache-2.0
"""How much slower a program is with less memory than it wants: ratios to stock PyTorch.

The programs of examples/, and the large ones of benchmarks/programs/, unchanged: under a budget,
and, for comparison, swapped by the kernel in the same room.
"""

import argparse
import ctypes.util
import functools
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import disk_rate
from kernel_swap import KernelSwap
from memory_group import UnavailableError
from paired_runs import (
    Spread,
    TooSlowError,
    Worker,
    WorkerError,
    environment,
    exit_on_signals,
    left,
    managed,
    stock_environment,
    turns,
)
from program_choice import add_directory, add_program, check_programs, is_installed
from report import PAGE, ROOT, Report, size, table

# Room above the largest single op, so that something besides its operands can stay.
FLOOR_FACTOR = 1.15
# Page tables and other memory the kernel charges to the group, which no budget counts.
KERNEL_ALLOWANCE = 16 << 20


@dataclass(frozen=True)
class Program:
    title: str
    script: str  # path below the root
    needs: tuple  # packages besides torch
    steps: int  # of one turn
    weight: int  # its share of the time
    share: float = 0.3  # of its peak, the least that is measured: a demo's as in scripts/demo.py
    size: int | None = None  # edge of a crop, bytes of context; None: its own
    out: bool = False  # it writes its results into a folder

    def command(self):
        return " ".join([self.script, *self.arguments()])

    def arguments(self):
        return ["--size", str(self.size)] if self.size else []


PROGRAMS = {
    "brain": Program(
        "the 3D U-Net, whose memory is activations", "examples/brain_segmentation/train.py",
        ("monai", "nilearn", "PIL"), 1, 3, out=True,
    ),
    "text": Program(
        "the GPT on bytes, whose memory is weights and optimizer state",
        "examples/byte_gpt/train.py", (), 3, 1, share=0.25, out=True,
    ),
    "unet3d": Program(
        "a 3D U-Net of 96^3 at batch 2", "benchmarks/programs/unet3d.py", (), 1, 4
    ),
    "gpt2": Program(
        "GPT-2 of 124 million parameters", "benchmarks/programs/gpt2.py", ("transformers",), 1, 6
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Effort:
    shares: tuple  # of the peak; None: the program's own
    warm_up: int  # steps, enough for the step to be recognised
    # The kernel learns nothing and takes long: as many steps as push out what is not used.
    kernel_warm_up: int
    pairs: int
    kernel_pairs: int
    disk_bytes: int
    seconds: float  # for all programs together
    patience: float  # seconds that a turn may take even when the time is up
    locked: bool = True  # also kernel swap that must leave the imports alone


FULL = Effort((0.5, None), 4, 2, 10, 5, 1 << 30, 2400, patience=400)
QUICK = Effort((None,), 3, 2, 4, 2, 512 << 20, 900, patience=240)
SMOKE = Effort((0.5,), 1, 1, 1, 1, 64 << 20, 40, patience=100, locked=False)
SMOKE_PROGRAMS = ("text",)
SMOKE_SIZE = 32


@dataclass(frozen=True)
class Needs:
    """Figures of the observed run, in bytes."""

    peak: int  # of tensor memory
    floor: int
    rest: int  # what the process holds besides tensors: interpreter, libraries, data

    def budget(self, share):
        return max(int(self.peak * share), int(self.floor * FLOOR_FACTOR))


@dataclass
class Row:
    """One contestant against stock."""

    name: str
    ratio: Spread | None = None
    remark: str = ""
    moved: float = 0  # bytes per step
    bound: float | None = None  # what the disk alone needs, in stock steps
    peak: int = 0  # bytes of tensors, or of the cgroup
    failed: bool = False

    def line(self):
        ratio = self.ratio.text() if self.ratio else "-"
        bound = "" if self.bound is None else f"{self.bound:.2f}"
        pairs = self.ratio.count if self.ratio else 0
        peak = size(self.peak) if self.peak else ""
        moved = size(self.moved) if self.moved else ""
        return (self.name, ratio, pairs, moved, bound, peak, self.remark)


class Contest:
    """One program against itself: a stock worker that stays, contestants that come and go."""

    def __init__(self, program, effort, directory, folder, until):
        self.program, self.effort, self.directory = program, effort, directory
        self.folder, self.until = folder, until
        self.method = "not measured"

    def worker(self, environment, in_child=None, lock=False):
        arguments = [ROOT / self.program.script, "--steps", 1_000_000, *self.program.arguments()]
        arguments += ["--out", self.folder] * self.program.out
        if lock:
            # torch.optim imports the other one with the first optimizer.
            modules = ("torch", "torch._dynamo", *self.program.needs)
            arguments = ["--lock", ",".join(modules), *arguments]
        return Worker("train_example.py", *arguments, environment=environment, in_child=in_child)

    def observe(self):
        with self.worker(environment(SPILLWAY_MODE="record")) as worker:
            rest = []
            for _ in range(2):
                counters = managed(worker.run(1)[1])
                resident = counters["RssAnon"] + counters["RssShmem"]
                rest.append(resident - counters["device_bytes"])
        return Needs(counters["peak_device_bytes"], counters["floor_bytes"], min(rest))

    def against(self, stock, name, environment, until, **kernel):
        """The row, and the turns it was made from; a row without a ratio if it was too slow."""
        try:
            warm_up = self.effort.kernel_warm_up if kernel else self.effort.warm_up
            with self.worker(environment, **kernel) as other:
                other.run(warm_up, left(until, max(self.effort.patience, 30)))
                pairs = self.effort.kernel_pairs if kernel else self.effort.pairs
                done = turns(
                    stock, other, pairs, self.program.steps,
                    centre=statistics.fmean, until=until,
                    least=self.effort.patience,
                )  # fmt: skip
        except TooSlowError as error:
            return Row(name, remark=f"given up: {error}"), []
        except WorkerError as error:
            return Row(name, remark=str(error).replace("\n", "; "), failed=True), []
        return Row(name, Spread.of([turn.ratio for turn in done])), done

    def tcmalloc(self, stock, until):
        name = ctypes.util.find_library("tcmalloc") or ctypes.util.find_library("tcmalloc_minimal")
        if not name:
            return Row("stock, tcmalloc", remark="not run: no libtcmalloc is installed")
        return self.against(stock, "stock, tcmalloc", stock_environment(LD_PRELOAD=name), until)[0]

    def spillway(self, stock, until, needs, share):
        budget = needs.budget(share)
        settings = {"SPILLWAY_BUDGET": f"cpu:{budget}", "SPILLWAY_SPOOL_DIR": str(self.directory)}
        name = f"Spillway, {size(budget)} ({budget / needs.peak:.0%})"
        row, done = self.against(stock, name, environment(**settings), until)
        if not done:
            row.failed = True
            return row
        first, last = managed(done[0].before), done[-1].after
        steps = len(done) * self.program.steps
        written, read = (
            (last[name] - first[name]) / steps for name in ("disk_written_bytes", "disk_read_bytes")
        )
        # In the same minute: the speed of a virtual disk is whatever its neighbours leave.
        rates = disk_rate.measure(self.directory, self.effort.disk_bytes)
        stock_step = statistics.median(turn.first for turn in done)
        row.moved, row.peak = written + read, last["peak_device_bytes"]
        row.bound = rates.seconds(written, read) / stock_step
        self.method = rates.method
        row.remark = f"disk {rates.write / 1e9:.2f} / {rates.read / 1e9:.2f} GB/s written / read"
        if budget > int(needs.peak * share):
            row.remark += f"; {FLOOR_FACTOR} x floor"
        if last["peak_device_bytes"] > budget or last["overshoot_bytes"]:
            row.failed, row.remark = True, f"**over by {size(last['overshoot_bytes'])}**"
        return row

    def kernel(self, stock, until, needs, share, lock=False):
        budget = needs.budget(share)
        limit = needs.rest + budget + KERNEL_ALLOWANCE
        name = f"kernel swap, {size(limit)} in all" + ", imports locked" * lock
        try:
            with KernelSwap(self.directory, limit, needs.peak + (512 << 20)) as swap:
                row, done = self.against(
                    stock, name, stock_environment(), until, in_child=swap.enter, lock=lock
                )
                row.peak = swap.peak_bytes()
                # That a program dies of it is an answer, too.
                if row.failed and "SIGKILL" in row.remark:
                    row.failed, row.remark = False, "killed by the kernel: out of memory"
                if done:
                    moved = done[-1].after["swapped_bytes"] - done[0].before["swapped_bytes"]
                    row.moved = moved / (len(done) * self.program.steps)
                return row
        except UnavailableError as error:
            return Row(name, remark=f"not run: {error}")

    def shares(self, needs):
        """Those to measure, without a second one for which the floor asks the same budget."""
        shares = (self.program.share if s is None else s for s in self.effort.shares)
        return list({needs.budget(share): share for share in shares}.values())

    def rows(self):
        needs = self.observe()
        contestants = [self.tcmalloc]
        for share in self.shares(needs):
            given = {"needs": needs, "share": share}
            contestants.append(functools.partial(self.spillway, **given))
            if self.effort.locked:
                contestants.append(functools.partial(self.kernel, **given, lock=True))
            contestants.append(functools.partial(self.kernel, **given))
        found = []
        with self.worker(stock_environment()) as stock:
            stock.run(self.effort.warm_up)
            for index, contestant in enumerate(contestants):
                now = time.monotonic()
                # Time that one contestant does not use is there for those after it.
                until = now + max(self.until - now, 0) / (len(contestants) - index)
                found.append(contestant(stock, until=until))
        return needs, found


HEAD = ("", "seconds per step against stock", "pairs", "moved per step", "disk bound", "peak", "")


def answer(name, program, contest, report):
    """Whether every row of Spillway's came about and kept its budget."""
    needs, rows = contest.rows()
    text = (
        f"`{program.command()}`: tensors peak at "
        f"{size(needs.peak)}, the largest single op needs {size(needs.floor)}, the process holds "
        f"{size(needs.rest)} besides. Turns of {program.steps} step(s) after "
        f"{contest.effort.warm_up} to warm up, {contest.effort.kernel_warm_up} for kernel swap. "
        f"Rates of the disk by {contest.method} ([columns](#budget-tables))."
    )
    report.add(
        f"budget-{name}", f"What does less memory cost {program.title}?",
        [text, "", *table(HEAD, *(row.line() for row in rows))],
    )  # fmt: skip
    return not any(row.failed for row in rows)


def chosen(arguments):
    """The programs to run by name, those left out told."""
    programs = {}
    for name in arguments.program or (SMOKE_PROGRAMS if arguments.smoke else PROGRAMS):
        program = PROGRAMS[name]
        if not is_installed(name, program.needs, " (requirements/demo.txt)"):
            continue
        if arguments.smoke:
            program = replace(program, size=SMOKE_SIZE, steps=1)
        programs[name] = replace(program, size=arguments.size or program.size)
    return programs


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser, PROGRAMS)
    parser.add_argument("--quick", action="store_true", help="fewer pairs, one share")
    parser.add_argument("--smoke", action="store_true", help="as short as possible, not written")
    parser.add_argument("--size", type=int, help="of the programs, in place of the usual one")
    parser.add_argument("--share", type=float, help="of the peak, in place of the usual ones")
    parser.add_argument("--page", type=Path, help="where to write (docs/benchmarks.md)")
    add_directory(parser, "the spool and the swap file")
    arguments = parser.parse_args()
    if arguments.share is not None and not 0 < arguments.share <= 1:
        parser.error("--share must be above 0 and at most 1")
    check_programs(parser, arguments, PROGRAMS)
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    effort = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    if arguments.share:
        effort = replace(effort, shares=(arguments.share,))
    page = arguments.page or (None if arguments.smoke else PAGE)
    mode = ["--quick"] * arguments.quick + ["--smoke"] * arguments.smoke
    mode += [f"--size {arguments.size}"] if arguments.size else []
    mode += [f"--share {arguments.share}"] if arguments.share else []
    command = " ".join(["benchmarks/bench_budget.py", *arguments.program, *mode])
    report = Report(page, command, arguments.directory)
    programs = chosen(arguments)
    end = time.monotonic() + effort.seconds
    weight = sum(program.weight for program in programs.values())
    failed = False
    for name, program in programs.items():
        now = time.monotonic()
        until = now + (end - now) * program.weight / weight
        weight -= program.weight
        try:
            with tempfile.TemporaryDirectory(prefix="spillway-bench-") as folder:
                contest = Contest(program, effort, arguments.directory, folder, until)
                failed |= not answer(name, program, contest, report)
        except (WorkerError, TooSlowError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
