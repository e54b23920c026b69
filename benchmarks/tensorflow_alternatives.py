# SPDX-License-Identifier: Apache-2.0
"""Other ways to train with too little memory in TensorFlow: the largest batch, and its price.

Stock TensorFlow, Grappler's own swapping, tf.recompute_grad around each block, swap by the kernel,
and Spillway without and with a planner, all within one limit on memory that the kernel holds. The
search for a way's batch begins with the one that the page has. Needs root.
"""

import re
import sys
from dataclasses import dataclass
from functools import partial

from bench_speed import resident_after
from kernel_swap import KernelSwap
from limited_trial import ALLOWANCE, MIB, LimitedTrial, in_memory, is_root, say
from memory_group import UnavailableError
from paired_runs import (
    HERE,
    Spread,
    TooSlowError,
    WorkerError,
    environment,
    exit_on_signals,
    stock_environment,
)
from program_choice import page_to_write, parse_choice
from report import PAGE, Report, section_of, size, table

CAP = 8  # where the search for the largest batch ends, in stock's
SWAP = 4096 * MIB  # more than any contestant fills before its time is over
PAIRS = 5
STEPS = 6  # of a trial, of which the last three follow a plan


@dataclass(frozen=True)
class Program:
    title: str
    script: str
    first: int  # batch, where the search begins
    budget: int  # bytes for tensors
    fixed: tuple = ()
    recompute: tuple = ()  # the options that recompute, if it has any

    def command(self, options, batch, steps):
        """Returns the script and its arguments."""
        return [
            HERE / "programs_keras" / self.script, "--steps", steps, "--batch", batch,
            *self.fixed, *options,
        ]  # fmt: skip


PROGRAMS = {
    "gpt": Program(
        "a transformer of 6 layers of 256, 256 tokens, Adam", "gpt.py", 2, 384 * MIB,
        recompute=("--recompute", 1),
    ),
    "resnet50": Program(
        "a convolutional network, ResNet-50 64^2, SGD", "resnet50.py", 16, 640 * MIB,
        ("--size", 64),
    ),
    "unet3d": Program(
        "a 3D U-Net 32^3, 8 channels, Adam", "unet3d.py", 2, 256 * MIB,
        ("--size", 32, "--width", 8),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """A contestant."""

    name: str
    change: str  # to the program
    variables: dict
    options: tuple = ()
    swap: int = 0  # bytes


def ways(program, directory):
    """All but stock."""
    found = [
        Way("Grappler's swapping", "its session's configuration", stock_environment(),
            ("--memory-optimization", "SWAPPING_HEURISTICS"))
    ]  # fmt: skip
    if program.recompute:
        change = "tf.recompute_grad around each block"
        found.append(Way("recompute_grad", change, stock_environment(), program.recompute))
    found.append(Way("kernel swap", "none", stock_environment(), swap=SWAP))
    for planner in ("", "none"):
        named = {"SPILLWAY_PLANNER": planner} if planner else {}
        variables = environment(
            SPILLWAY_BUDGET=str(program.budget), SPILLWAY_SPOOL_DIR=str(directory),
            SPILLWAY_SUMMARY="0", **named,
        )  # fmt: skip
        found.append(Way(f"Spillway{', ' * bool(planner)}{planner}", "none", variables))
    return found


@dataclass(frozen=True)
class Row:
    """One way: its largest batch, and seconds of a step at stock's largest against stock's."""

    name: str
    change: str
    largest: str
    ratio: str
    cost: Spread | None = None
    remark: str = ""

    def cells(self):
        cost = self.cost.text() if self.cost else "-"
        return (self.name, self.change, self.largest, self.ratio, cost, self.remark)


def found_before(text, key):
    """The largest batch of each way that the page has a number for."""
    row = re.compile(r"^\| ([^|]+) \| [^|]* \| (?:at least )?(\d+) \|", re.MULTILINE)
    return {way: int(batch) for way, batch in row.findall(section_of(text, key))}


HEAD = ("", "change to the program", "largest batch", "to stock's",
        "s per step at stock's largest, to stock's", "")  # fmt: skip


class Contest:
    """All ways to train one program in one limit."""

    def __init__(self, program, directory, before):
        """`before`: largest batches that were found, by way."""
        self.program, self.directory, self.before = program, directory, before
        self.imports = resident_after(("tensorflow",))
        self.room = program.budget + self.imports + ALLOWANCE

    def rows(self):
        """Yields the rows, stock's first. Raises WorkerError where stock trains nothing."""
        plain = Way("stock", "none", stock_environment())
        stock = self.trial(plain).largest(self.program.first, expected=self.before.get(plain.name))
        if not stock:
            raise WorkerError(f"stock trains nothing in {size(self.room)}")
        say(f"  stock: {stock.value}")
        yield Row("stock", "none", str(stock.value), "1.0", Spread(1.0, 1.0, 1.0, 1))
        for way in ways(self.program, self.directory):
            say(f" {way.name}")
            try:
                yield self.row(way, stock.value)
            except (WorkerError, TooSlowError, UnavailableError) as error:
                yield Row(way.name, way.change, "-", "-", None, str(error).splitlines()[-1])

    def row(self, way, stock):
        trial = self.trial(way)
        expected = self.before.get(way.name)
        found = trial.largest(stock, cap=CAP * stock, precision=0.1, expected=expected)
        if not found:
            return Row(way.name, way.change, "none", "-")
        at_least = "at least " * found.capped
        cost = None
        if found.value >= stock:
            cost = trial.cost(stock, PAIRS, partial(self.program.command, ()))
        return Row(
            way.name, way.change, f"{at_least}{found.value}",
            f"{at_least}**{found.value / stock:.1f}**", cost,
        )  # fmt: skip

    def trial(self, way):
        limit = in_memory(self.room)
        if way.swap:
            limit = partial(KernelSwap, self.directory, self.room, way.swap)
        command = partial(self.program.command, way.options)
        return LimitedTrial(command, limit, way.variables, STEPS)


def answer(name, program, arguments, report):
    """Adds the program's section."""
    key = f"tensorflow-{name}"
    page = arguments.page.read_text(encoding="utf-8") if arguments.page.exists() else ""
    contest = Contest(program, arguments.directory, found_before(page, key))
    rows = [row.cells() for row in contest.rows()]
    text = (
        f"`{program.script}{''.join(f' {word}' for word in program.fixed)}`: "
        f"{size(program.budget)} for tensors, {size(contest.imports)} that importing TensorFlow "
        f"takes and {size(ALLOWANCE)} for all else, in a memory cgroup. `largest batch`: "
        f"{STEPS} steps end within {LimitedTrial.patience} s; found by bisection, to "
        f"5 % for stock and to 10 % for the others, and not searched beyond {CAP} times stock's. "
        f"Times are against stock without a limit: median of {PAIRS} pairs and range."
    )
    report.add(
        key, f"What else could I do in TensorFlow: {program.title}?",
        [text, "", *table(HEAD, *rows)],
    )  # fmt: skip


def main():
    arguments = parse_choice(__doc__, PROGRAMS, PAGE, "spool and swap")
    exit_on_signals()
    if not is_root():
        return 1
    command = " ".join(["benchmarks/tensorflow_alternatives.py", *arguments.program])
    page = page_to_write(arguments)
    report = Report(page, command, arguments.directory, "tensorflow-cpu")
    failed = False
    for name in arguments.program or PROGRAMS:
        say(f"{name}: {PROGRAMS[name].title}, {size(PROGRAMS[name].budget)} for tensors")
        try:
            answer(name, PROGRAMS[name], arguments, report)
        except (WorkerError, TooSlowError, UnavailableError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
