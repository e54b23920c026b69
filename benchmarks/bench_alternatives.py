# SPDX-License-Identifier: Apache-2.0
"""Other ways to train with too little memory: peak and seconds per step of each way.

Stock and tuned PyTorch, torch.utils.checkpoint around each block, saved tensors in files, swap by
the kernel, and Spillway at the peaks that others reach. One network each of convolutions, of a
U-Net and of a transformer, in turns with tuned PyTorch, which is stock with tcmalloc preloaded.
"""

import argparse
import contextlib
import statistics
import sys
import time
from dataclasses import dataclass, field, replace

import bench_budget
from bench_speed import resident_after, tcmalloc
from kernel_swap import KernelSwap
from memory_group import MemoryGroup, UnavailableError
from paired_runs import (
    Spread,
    TooSlowError,
    WorkerError,
    environment,
    exit_on_signals,
    managed,
    stock_environment,
)
from program_choice import (
    add_directory,
    add_page,
    add_program,
    check_programs,
    is_installed,
    page_to_write,
)
from report import PAGE, Report, size, table

KEEP, RECOMPUTE, DISK = "memory", "recompute", "disk"  # --saved of the programs


@dataclass(frozen=True)
class Program(bench_budget.Program):
    options: tuple = ()

    def arguments(self):
        return [str(option) for option in self.options]

    def saving(self, way):
        return replace(self, options=(*self.options, "--saved", way))


PROGRAMS = {
    "resnet50": Program(
        "a convolutional network, ResNet-50 224^2, batch 12, SGD",
        "benchmarks/programs/resnet50.py", ("torchvision",), 1, 1, options=("--batch", 12),
    ),
    "unet3d": Program(
        "a 3D U-Net 96^3, batch 1, AdamW",
        "benchmarks/programs/unet3d.py", (), 1, 1, options=("--batch", 1),
    ),
    "gpt": Program(
        "a transformer of 12 layers of 512, 4 x 256 tokens, AdamW",
        "benchmarks/programs/gpt.py", (), 1, 1,
        options=("--layers", 12, "--width", 512, "--heads", 8, "--size", 256, "--batch", 4,
                 "--vocabulary", 8192),
    ),
}  # fmt: skip
QUICK_OPTIONS = {
    "resnet50": ("--batch", 2),
    "unet3d": ("--batch", 1, "--size", 32),
    "gpt": ("--layers", 2, "--width", 128, "--heads", 4, "--size", 128, "--vocabulary", 512),
}
SECONDS = 1800
FULL = bench_budget.Effort(
    shares=(), warm_up=4, kernel_warm_up=2, pairs=7, kernel_pairs=7, disk_bytes=0, seconds=SECONDS,
    patience=60,
)  # fmt: skip
QUICK = replace(FULL, pairs=2, kernel_pairs=1, warm_up=3, kernel_warm_up=1, seconds=200)


@dataclass(frozen=True)
class Way:
    """A contestant that runs in turns with the reference."""

    name: str
    saved: str = KEEP
    environment: dict = field(default_factory=stock_environment)
    tensors: int = 0  # their peak as observed
    budget: int | None = None  # of Spillway
    room: int | None = None  # most memory that the process and its files may take
    swap: int = 0  # bytes of it
    moved: str = ""  # the counter


@dataclass(frozen=True)
class Observed:
    """The needs of a program with what it saves at one place; the reference's peak as a process."""

    needs: bench_budget.Needs
    resident: int


def ways(plain, recompute, disk, directory, preload):
    """All but the reference, those last that may take long."""
    least = plain.needs.budget(0.3)
    # More than tensors want would be no budget; less than the floor could not work.
    matched = min(max(recompute.needs.peak, least), plain.needs.peak)
    tuned = stock_environment(**preload)
    found = [
        Way("stock", tensors=plain.needs.peak),
        Way("checkpoint", RECOMPUTE, tuned, recompute.needs.peak),
    ]
    for budget in dict.fromkeys((matched, least)):
        settings = {"SPILLWAY_BUDGET": f"cpu:{budget}", "SPILLWAY_SPOOL_DIR": str(directory)}
        name = f"Spillway, {size(budget)} ({budget / plain.needs.peak:.0%})"
        found.append(Way(name, KEEP, environment(**settings), budget=budget))
    found.append(
        Way("saved tensors in files", DISK, stock_environment(TMPDIR=str(directory), **preload),
            disk.needs.peak, room=disk.resident, moved="file_bytes")
    )  # fmt: skip
    room = plain.needs.rest + least + bench_budget.KERNEL_ALLOWANCE
    swap = plain.needs.peak + (512 << 20)
    found.append(Way("kernel swap", room=room, swap=swap, moved="swapped_bytes"))
    return found


@dataclass
class Row:
    """One way; bytes, and seconds per step."""

    name: str
    tensors: int = 0
    resident: int = 0  # less what the imports hold
    seconds: float = 0
    ratio: Spread | None = None
    moved: float = 0  # per step
    remarks: list = field(default_factory=list)
    failed: bool = False

    def line(self):
        sizes = (size(value) if value else "" for value in (self.tensors, self.resident))
        seconds = f"{self.seconds:.3g}" if self.seconds else "-"
        ratio = self.ratio.text() if self.ratio else "-"
        pairs = self.ratio.count if self.ratio else 0
        moved = size(self.moved) if self.moved else ""
        return (self.name, *sizes, seconds, ratio, pairs, moved,
                "; ".join(self.remarks))  # fmt: skip


HEAD = ("", "peak of tensors", "peak resident", "s per step", "to tuned", "pairs",
        "moved per step", "")  # fmt: skip


class Contest:
    """One program: tuned stays, the other ways come and go, turn by turn."""

    def __init__(self, program, effort, directory, until):
        self.program, self.effort, self.directory = program, effort, directory
        self.until = until
        self.idle = resident_after(("torch", *program.needs))
        library = tcmalloc()
        self.preload = {"LD_PRELOAD": library} if library else {}

    def saving(self, where):
        """A contest of the program that keeps there what it saves for backward."""
        return bench_budget.Contest(
            self.program.saving(where), self.effort, self.directory, None, self.until
        )

    def observe(self, where):
        contest = self.saving(where)
        needs = contest.observe()
        with contest.worker(
            stock_environment(TMPDIR=str(self.directory), **self.preload)
        ) as worker:
            return Observed(needs, worker.run(1)[1]["VmHWM"])

    def rows(self):
        plain, recompute, disk = (self.observe(where) for where in (KEEP, RECOMPUTE, DISK))
        first = Row("tuned" if self.preload else "stock (no libtcmalloc is installed)", "none")
        first.tensors, first.resident = plain.needs.peak, plain.resident - self.idle
        found, seconds = [first], []
        with self.saving(KEEP).worker(stock_environment(**self.preload)) as reference:
            reference.run(self.effort.warm_up, timeout=600)
            for way in ways(plain, recompute, disk, self.directory, self.preload):
                row, done = self.against(reference, way)
                seconds += [turn.first for turn in done]
                ratio = row.ratio.text() if row.ratio else "; ".join(row.remarks)
                print(f"{self.program.title}: {row.name}: {ratio}", file=sys.stderr, flush=True)
                found.append(row)
        first.ratio = Spread(1.0, 1.0, 1.0, len(seconds))
        first.seconds = statistics.median(seconds) if seconds else 0
        return plain.needs, found

    def limited(self, way):
        """A context with the group that holds the way to its room; with None if it has none."""
        if way.swap:
            return KernelSwap(self.directory, way.room, way.swap)
        return MemoryGroup(way.room) if way.room else contextlib.nullcontext()

    def against(self, reference, way):
        """The row, and the turns that it was made from."""
        row = Row(way.name, way.tensors)
        # The kernel may take so long that the time ends; all others have their turns.
        until = self.until if way.swap else None
        try:
            with self.limited(way) as group:
                kernel = {"in_child": group.enter} if group else {}
                contest = self.saving(way.saved)
                told, done = contest.against(reference, "", way.environment, until, **kernel)
        except UnavailableError as error:
            row.remarks.append(f"not run: {error}")
            return row, []
        row.ratio, row.failed = told.ratio, told.failed
        row.remarks += [told.remark] if told.remark else []
        if way.room:
            row.remarks.append(
                f"{size(way.room)} in all" + ", files in memory too" * (not way.swap)
            )
        if done:
            self.fill(row, way, done)
        # That a program dies of its limit is an answer, too.
        if told.failed and way.room and "SIGKILL" in told.remark:
            row.failed = False
        return row, done

    def fill(self, row, way, done):
        row.seconds = statistics.median(turn.second for turn in done)
        row.resident = max(turn.after["VmHWM"] for turn in done) - self.idle
        first, last = done[0].before, done[-1].after
        steps = len(done) * self.program.steps
        if way.budget:
            managed(last)
            row.tensors = last["peak_device_bytes"]
            names = ("disk_written_bytes", "disk_read_bytes")
            if row.tensors > way.budget or last["overshoot_bytes"]:
                row.failed = True
                row.remarks.append(f"**over by {size(last['overshoot_bytes'])}**")
        else:
            names = (way.moved,) if way.moved else ()
        row.moved = sum(last[name] - first[name] for name in names) / steps


def answer(name, contest, report):
    """Whether every row of Spillway's came about and kept its budget."""
    needs, rows = contest.rows()
    text = (
        f"`{contest.program.command()}`: the largest single op needs {size(needs.floor)}, the "
        f"imports hold {size(contest.idle)} ([rows](#alternatives))."
    )
    report.add(
        f"alternatives-{name}", f"What else could I do: {contest.program.title}?",
        [text, "", *table(HEAD, *(row.line() for row in rows))],
    )  # fmt: skip
    return not any(row.failed for row in rows)


def chosen(arguments):
    """The programs to run by name, those left out told."""
    found = {}
    for name in arguments.program or PROGRAMS:
        program = PROGRAMS[name]
        if not is_installed(name, program.needs):
            continue
        if arguments.quick:
            title = f"{program.title} (--quick: a tiny one instead, no answer)"
            program = replace(program, title=title, options=QUICK_OPTIONS[name])
        found[name] = program
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser, PROGRAMS)
    parser.add_argument("--quick", action="store_true", help="tiny programs, never written")
    add_page(parser, PAGE)
    add_directory(parser, "spool, files and swap")
    arguments = parser.parse_args()
    check_programs(parser, arguments, PROGRAMS)
    if arguments.quick and arguments.write:
        parser.error("--quick measures other programs: nothing is written")
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    effort = QUICK if arguments.quick else FULL
    command = " ".join(
        ["benchmarks/bench_alternatives.py", *arguments.program, *["--quick"] * arguments.quick]
    )
    report = Report(page_to_write(arguments), command, arguments.directory)
    programs = chosen(arguments)
    end = time.monotonic() + effort.seconds
    failed = False
    for left_over, (name, program) in zip(range(len(programs), 0, -1), programs.items()):
        now = time.monotonic()
        until = now + (end - now) / left_over
        try:
            contest = Contest(program, effort, arguments.directory, until)
            failed |= not answer(name, contest, report)
        except (WorkerError, TooSlowError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
