# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT that is larger than the machine within a third of its memory.

Weights, gradients and AdamW's state of GPT-2 XL are 25 GB. Prints the seconds of a step beside
those of computing alone and those that the disk alone takes for the bytes moved; and how stock
PyTorch ends. Takes a quarter of an hour, and needs root, for a limit on memory that the kernel
holds.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import disk_rate
from bench_speed import resident_after, tcmalloc
from memory_group import MemoryGroup, UnavailableError
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
from program_choice import add_directory, add_page, page_to_write
from report import PAGE, Report, size, table

SCRIPT = HERE / "programs" / "gpt.py"
# Weight, gradient and AdamW's two moments, in float32.
STATE_BYTES = 4 * 4
# Memory of the process besides tensors and imports: threads' stacks, page tables, queues.
ALLOWANCE = 512 << 20
# Stock may have all memory that is free but this, which keeps the machine alive.
RESERVE = 1 << 30
# Bytes of disk for a byte of state: what leaves lies there once, clean copies and activations too.
DISK_FACTOR = 1.5
PATIENCE = 3600  # seconds for one order


@dataclass(frozen=True)
class Model:
    layers: int = 48
    width: int = 1600
    heads: int = 25
    size: int = 1024
    vocabulary: int = 50257

    def arguments(self):
        return [part for name, value in vars(self).items() for part in (f"--{name}", value)]

    def parameters(self):
        """A count. The weight of the head is that of the tokens."""
        block = 12 * self.width**2 + 13 * self.width
        return self.layers * block + (self.vocabulary + self.size + 2) * self.width

    def state(self):
        """Bytes of weights, gradients and optimizer state."""
        return self.parameters() * STATE_BYTES


@dataclass(frozen=True)
class Effort:
    model: Model
    few: int  # layers of the two models that fit, which tell what computing alone takes
    more: int
    pairs: int  # of their turns
    warm_up: int  # steps, enough for the step to be recognised
    steps: int  # that are measured
    disk_bytes: int  # of a file that its rate is measured with
    share: float | None = None  # of the state, that tensors may take; None: by the machine


FULL = Effort(Model(), few=2, more=6, pairs=3, warm_up=2, steps=3, disk_bytes=4 << 30)
QUICK = Effort(
    Model(layers=8, width=1024, heads=8, size=128, vocabulary=8192),
    few=1, more=2, pairs=1, warm_up=2, steps=2, disk_bytes=256 << 20, share=0.3,
)  # fmt: skip
QUICK_MARK = " (--quick: a small model under small limits, no answer)"


@dataclass(frozen=True)
class Step:
    """One step under the budget: seconds and bytes."""

    seconds: float
    stalled: float
    written: int
    read: int

    COUNTERS = ("stall_ns", "disk_written_bytes", "disk_read_bytes")

    @classmethod
    def between(cls, seconds, before, after):
        """By the engine's counters around it."""
        stalled, written, read = (after[name] - before[name] for name in cls.COUNTERS)
        return cls(seconds, stalled * 1e-9, written, read)

    def text(self):
        return (
            f"{self.seconds:.1f} s, stalled {self.stalled:.1f} s, "
            f"{size(self.written)} out, {size(self.read)} in"
        )


@dataclass(frozen=True)
class Stock:
    """The end of stock PyTorch."""

    limit: int
    seconds: float
    ended: str
    message: str = ""  # the kernel's


@dataclass(frozen=True)
class Managed:
    """The steps under the budget, and the most that was held meanwhile."""

    steps: list
    warm_up: int
    budget: int
    room: int | None  # of the group; None: no limit but the budget
    peak_tensors: int
    peak_process: int
    peak_group: int
    disk: int
    overshoot: int

    def median(self, name):
        return statistics.median(getattr(step, name) for step in self.steps)


def alone(first, second, few, more, layers):
    """Seconds of a step of `layers` layers, from those of two models with `few` and `more`.

    All layers are alike, so each takes what one more takes.
    """
    return first + (layers - few) * (second - first) / (more - few)


def available_bytes():
    """Returns the bytes that the machine has left for programs."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise OSError("/proc/meminfo names no available memory")


def total_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Trial:
    """The measurements, each in processes of its own."""

    def __init__(self, effort, directory):
        self.effort, self.directory = effort, directory
        self.imports = resident_after(("torch",))
        state = effort.model.state()
        beside = self.imports + ALLOWANCE
        self.room = int(state * effort.share) + beside if effort.share else total_bytes() // 3
        self.budget = self.room - beside
        self.disk_budget = int(state * DISK_FACTOR)

    def check_disk(self):
        """Says what the disk has to hold; a sentence if it cannot."""
        need = self.disk_budget + self.effort.disk_bytes
        free = shutil.disk_usage(self.directory).free
        say(f"disk: up to {size(need)} in {self.directory}, of {size(free)} free")
        if free < need + (1 << 30):
            return f"{self.directory}: need {size(need)} and 1 GiB over, have {size(free)}"
        return ""

    def worker(self, environment, model=None, **how):
        arguments = [SCRIPT, "--steps", 1_000_000_000, *(model or self.effort.model).arguments()]
        return Worker("train_example.py", *arguments, environment=environment, **how)

    def stock(self):
        """Returns how it ends; nothing where no limit can be set: the kernel might kill another."""
        room = self.room if self.effort.share else available_bytes() - RESERVE
        say(f"stock PyTorch, with {size(room)} ...")
        begin = time.monotonic()
        try:
            with MemoryGroup(room) as group:
                ended = self.run_stock(group)
                return Stock(room, time.monotonic() - begin, ended, group.kernel_message())
        except UnavailableError as error:
            say(f"not run: {error}")
            return None

    def run_stock(self, group):
        try:
            with self.worker(stock_environment(), in_child=group.enter) as worker:
                worker.run(1, PATIENCE)
                return "**trained two steps**: the model is too small for this machine"
        except WorkerError as error:
            return str(error).replace("\n", "; ")

    def computing(self):
        """Seconds of a step as if all tensors had room, by tuned PyTorch."""
        few, more = self.effort.few, self.effort.more
        say(f"computing alone, from {few} and {more} layers ...")
        library = tcmalloc()
        tuned = stock_environment(**({"LD_PRELOAD": library} if library else {}))
        small, larger = (replace(self.effort.model, layers=layers) for layers in (few, more))
        with self.worker(tuned, small) as first, self.worker(tuned, larger) as second:
            first.run(1, PATIENCE)
            second.run(1, PATIENCE)
            done = turns(first, second, self.effort.pairs, 1, until=time.monotonic() + PATIENCE)
        layers = self.effort.model.layers
        return Spread.of([alone(turn.first, turn.second, few, more, layers) for turn in done])

    def command(self):
        """In front of the program."""
        tool = os.environ.get("COMMAND_UNDER_TEST") or str(Path(sys.executable).parent / "spillway")
        return [
            tool, "run", "--budget", f"cpu:{self.budget}", "--spool-dir", str(self.directory),
            "--disk-budget", str(self.disk_budget), "--status", "on", "--summary", "off", "--",
        ]  # fmt: skip

    def spillway(self):
        with contextlib.ExitStack() as stack:
            try:
                group = stack.enter_context(MemoryGroup(self.room))
            except UnavailableError as error:
                say(f"no limit but the budget: {error}")
                group = None
            in_child = group.enter if group else None
            worker = self.worker(environment(), in_child=in_child, prefix=self.command())
            steps, last = self.take_steps(stack.enter_context(worker))
            warm_up = self.effort.warm_up
            return Managed(
                steps[warm_up:], warm_up + 2, self.budget, self.room if group else None,
                last["peak_device_bytes"], last["VmHWM"], group.peak_bytes() if group else 0,
                last["disk_bytes"], last["overshoot_bytes"],
            )  # fmt: skip

    def take_steps(self, worker):
        """All steps but the first two, and the counters behind the last."""
        say(f"Spillway, with {size(self.budget)} for tensors: making the model, two steps ...")
        # The first runs without an order.
        last = managed(worker.run(1, PATIENCE)[1])
        steps = []
        for number in range(self.effort.warm_up + self.effort.steps):
            (seconds,), after = worker.run(1, PATIENCE)
            steps.append(Step.between(seconds, last, after))
            last = after
            say(f"step {number + 3}: {steps[-1].text()}")
        return steps, last


def mean_rates(first, second):
    """Returns the means of before and after: the disk gives what its neighbours leave."""
    means = (
        statistics.fmean(pair) for pair in ((first.write, second.write), (first.read, second.read))
    )
    return disk_rate.Rates(*means, first.method)


def rows(computing, rates, run, stock):
    """The table: what a step takes, beside what no step can go below."""
    written, read = run.median("written"), run.median("read")
    disk = rates.seconds(written, read)
    seconds, stalled = run.median("seconds"), run.median("stalled")

    def row(name, seconds, remark=""):
        return (name, f"{seconds:.1f}", f"{seconds / computing.median:.2f}", remark)

    times = [step.seconds for step in run.steps]
    ended = f"{stock.ended} after {stock.seconds:.0f} s" if stock else "not run"
    return [
        ("", "seconds per step", "to computing alone", ""),
        row("computing alone", computing.median, f"{computing.low:.1f} to {computing.high:.1f}"),
        row("the disk alone", disk, f"{size(written)} out, {size(read)} in at {speeds(rates)}"),
        row("Spillway", seconds, f"{min(times):.1f} to {max(times):.1f}"),
        row("the same less stalls", seconds - stalled, "as the engine counts them"),
        ("stock PyTorch", "-", "-", ended),
    ]  # fmt: skip


def speeds(rates):
    return f"{rates.write / 1e9:.2f} / {rates.read / 1e9:.2f} GB/s ({rates.method})"


def text(effort, run, stock):
    """Returns a description of the run, for the page."""
    model = effort.model
    need = model.state()
    lines = [
        f"`benchmarks/programs/gpt.py` at its full size, that of GPT-2 XL, knows nothing of "
        f"Spillway: {model.parameters() / 1e9:.2f} G parameters, whose weights, gradients and "
        f"AdamW state are {need / 1e9:.1f} GB ({size(need)}) in float32, and activations of "
        f"{model.size} tokens; the machine has {size(total_bytes())}. With {size(run.budget)} for "
        f"tensors, the making of the model included, tensors peaked at "
        f"{size(run.peak_tensors)} and the process at {size(run.peak_process)}{within(run)}; "
        f"{size(run.disk)} lay on disk at the end. "
        f"{len(run.steps)} steps after {run.warm_up} to warm up; medians with their range.",
        "",
        f"`computing alone` is tuned PyTorch (tcmalloc preloaded) on as many layers as fit: "
        f"{effort.few} and {effort.more} in {effort.pairs} pairs of turns, the difference taken "
        f"for each further layer. `the disk alone`: the bytes moved, one after the other, at the "
        f"rates measured before and after. A step may do both at once.",
    ]
    if stock:
        lines += ["", f"Stock PyTorch had {size(stock.limit)}, all memory that was free but "
                  f"{size(RESERVE)}, and no swap."]  # fmt: skip
    if stock and stock.message:
        lines[-1] += f" The kernel: `{stock.message}`."
    return lines


def within(run):
    if run.room is None:
        return ""
    return (
        f", in a memory cgroup of {size(run.room)}, a third of the machine, where the kernel would "
        f"have killed it; the group peaked at {size(run.peak_group)}"
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small model, never written")
    parser.add_argument("--no-stock", action="store_true", help="do not run stock into its limit")
    parser.add_argument("--steps", type=int, help="under the budget, that are measured")
    add_page(parser, PAGE)
    add_directory(parser, "the spool")
    arguments = parser.parse_args()
    if arguments.quick and arguments.write:
        parser.error("--quick measures another model: nothing is written")
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    effort = QUICK if arguments.quick else FULL
    effort = replace(effort, steps=arguments.steps or effort.steps)
    mode = ["--quick"] * arguments.quick + ["--no-stock"] * arguments.no_stock
    mode += [f"--steps {arguments.steps}"] * bool(arguments.steps)
    command = " ".join(["benchmarks/bench_large.py", *mode])
    report = Report(page_to_write(arguments), command, arguments.directory)
    trial = Trial(effort, arguments.directory)
    short = trial.check_disk()
    if short:
        print(short, file=sys.stderr)
        return 1
    try:
        rates = disk_rate.measure(arguments.directory, effort.disk_bytes)
        computing = trial.computing()
        run = trial.spillway()
        rates = mean_rates(rates, disk_rate.measure(arguments.directory, effort.disk_bytes))
        stock = None if arguments.no_stock else trial.stock()
    except (WorkerError, TooSlowError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    report.add(
        "large", "Can it train what is larger than the machine?" + QUICK_MARK * arguments.quick,
        [*text(effort, run, stock), "", *table(*rows(computing, rates, run, stock))],
    )  # fmt: skip
    return int(run.overshoot > 0 or run.peak_tensors > run.budget)


if __name__ == "__main__":
    sys.exit(main())
