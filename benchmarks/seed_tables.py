# SPDX-License-Identifier: Apache-2.0
"""The claims of the papers that Spillway continues, in miniature and executed.

Each says how much larger something can be that is trained in a given memory: batch, depth,
resolution, experts, sequence. Here both train within one memory cgroup, whose limit the kernel
holds: stock PyTorch and Spillway, the program unchanged. Needs root.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench_speed import resident_after
from largest import largest
from memory_group import MemoryGroup, UnavailableError
from paired_runs import (
    HERE,
    Spread,
    TooSlowError,
    Worker,
    WorkerError,
    environment,
    exit_on_signals,
    stock_environment,
    turns,
)
from program_choice import add_directory, add_program, check_programs, is_installed
from report import ROOT, Report, size, table

PAGE = ROOT / "docs" / "seed-tables.md"
MIB = 1 << 20
# Memory of the process besides tensors and imports: threads' stacks, kernels made for a shape. The
# kernel counts it for both.
ALLOWANCE = 64 * MIB
# Where the search for Spillway's largest ends, in stock's largest: no paper claims more.
CAP = 8
STEPS = 3  # of a trial; what is made in the first is held in the second
CHECKED = 3  # steps whose losses are compared, and the weights after them
PATIENCE = 300  # seconds for the steps of one trial; TensorFlow traces deep networks for a minute
PAIRS = 5


@dataclass(frozen=True)
class Framework:
    """Whose programs are trained."""

    title: str
    module: str
    package: str  # as its version is told
    folder: str


FRAMEWORKS = {
    "torch": Framework("PyTorch", "torch", "torch", "programs"),
    "tensorflow": Framework("TensorFlow", "tensorflow", "tensorflow-cpu", "programs_keras"),
}


@dataclass(frozen=True)
class Seed:
    """One claim, and the program that stands for it."""

    claim: str  # what grows, and in which network
    paper: str
    ratio: str  # as published
    cost: str  # as published
    script: str
    option: str  # that grows
    first: int  # where the search begins
    budget: int  # bytes for tensors
    fixed: tuple = ()
    granule: int = 1
    modules: tuple = ()  # that PyTorch's program needs besides
    amount: Callable = int  # of what the claim counts, by the option's value

    def arguments(self, framework, value, steps):
        return [
            HERE / framework.folder / self.script, "--steps", steps, f"--{self.option}", value,
            *self.fixed,
        ]  # fmt: skip


SEEDS = {
    "batch": Seed(
        "batch of ResNet-50 (64^2)", "TFLMS v2", "4.9", "-",
        "resnet50.py", "batch", 16, 640 * MIB, ("--size", 64), 2, ("torchvision",),
    ),
    "depth": Seed(
        "layers of a ResNet, third stage (32^2, batch 16)", "SuperNeurons, TensorFlowMem",
        "3.24, 3.8", "-", "deep_resnet.py", "blocks", 16, 160 * MIB,
        amount=lambda blocks: 3 * (6 + 32 + 6 + blocks) + 2,
    ),
    "resolution": Seed(
        "voxels of a 3D U-Net (batch 1)", "TFLMS v2", "5.6", "-",
        "unet3d.py", "size", 48, 384 * MIB, ("--batch", 1, "--width", 8), 16,
        amount=lambda edge: edge**3,
    ),
    "experts": Seed(
        "experts of a transformer (batch 8, Adam)", "TensorFlowMem", "4", "-",
        "experts.py", "experts", 8, 256 * MIB,
    ),
    "sequence": Seed(
        "time steps of an unrolled RNN (batch 64)", "TensorFlowMem", "2", "1.30 to 1.36",
        "unrolled_rnn.py", "size", 64, 128 * MIB, ("--width", 256),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The outcome of one seed."""

    stock: int  # the option's value
    spillway: int
    capped: bool
    equal: bool
    cost: Spread | None  # seconds of a step at stock's largest, against stock without a limit
    at_largest: float  # seconds of a step


def say(text):
    print(text, file=sys.stderr, flush=True)


class Trial:
    """Runs one seed's program, by stock PyTorch or under Spillway, in the same limit."""

    def __init__(self, framework, seed, directory, imports):
        self.framework, self.seed = framework, seed
        self.room = seed.budget + imports + ALLOWANCE
        self.managed = environment(
            SPILLWAY_BUDGET=str(seed.budget),
            SPILLWAY_SPOOL_DIR=str(directory),
            SPILLWAY_SUMMARY="0",
        )
        self.seconds = {}

    def run(self):
        """The Outcome. Raises WorkerError where stock trains nothing at all."""
        seed = self.seed
        stock = largest(
            lambda value: self.trains(value, stock_environment()), seed.first, granule=seed.granule
        )
        if not stock:
            raise WorkerError(f"stock trains nothing in {size(self.room)}")
        say(f"  stock: {stock.value}")
        ours = largest(
            lambda value: self.trains(value, self.managed), 2 * stock.value, granule=seed.granule,
            cap=self.cap(stock.value), precision=0.1,
        )  # fmt: skip
        if not ours:
            raise WorkerError(f"Spillway trains nothing in {size(self.room)}")
        say(f"  Spillway: {ours.value}")
        return Outcome(
            stock.value, ours.value, ours.capped, self.equal(stock.value), self.cost(stock.value),
            self.seconds[ours.value],
        )  # fmt: skip

    def cap(self, stock):
        """The option's value at which the amount is CAP times stock's."""
        value = stock
        while self.seed.amount(value) < CAP * self.seed.amount(stock):
            value += self.seed.granule
        return value

    def trains(self, value, variables):
        """Whether some steps are done within the limit, and in time."""
        with MemoryGroup(self.room) as group:
            worker = Worker(
                "train_example.py", *self.seed.arguments(self.framework, value, 1_000_000_000),
                environment=variables, in_child=group.enter,
            )  # fmt: skip
            try:
                with worker:
                    self.seconds[value] = min(worker.run(STEPS - 1, PATIENCE)[0])
            except (WorkerError, TooSlowError) as error:
                say(f"  {value}: {str(error).splitlines()[-1]}")
                return False
        say(f"  {value}: {self.seconds[value]:.2f} s a step")
        return True

    def equal(self, value):
        """Whether losses and weights are those of stock without a limit, bit for bit."""
        with MemoryGroup(self.room) as group:
            limited = self.results(value, self.managed, group.enter)
        return limited == self.results(value, stock_environment(), None)

    def results(self, value, variables, in_child):
        """Returns the lines that the program prints, without the times."""
        command = [sys.executable, *map(str, self.seed.arguments(self.framework, value, CHECKED))]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, preexec_fn=in_child, check=False
        )
        if done.returncode:
            raise WorkerError(done.stderr[-2000:])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]

    def cost(self, value):
        """Seconds of a step under Spillway against stock's, which has no limit here."""
        arguments = self.seed.arguments(self.framework, value, 1_000_000_000)
        with MemoryGroup(self.room) as group:
            stock = Worker("train_example.py", *arguments, environment=stock_environment())
            ours = Worker(
                "train_example.py", *arguments, environment=self.managed, in_child=group.enter
            )
            with stock, ours:
                stock.run(STEPS, PATIENCE)
                ours.run(STEPS, PATIENCE)
                return Spread.of([turn.ratio for turn in turns(stock, ours, PAIRS, 1)])


HEAD_ROW = (
    "what grows", "paper", "published", "stock's largest", "Spillway's largest", "ratio",
    "equal", "published cost", "cost at stock's largest", "memory for tensors",
)  # fmt: skip


def row(seed, outcome):
    """Of the table: amounts, not values of the option."""
    stock, ours = seed.amount(outcome.stock), seed.amount(outcome.spillway)
    at_least = "at least " * outcome.capped
    return (
        seed.claim, seed.paper, seed.ratio, f"{stock:,}", f"{at_least}{ours:,}",
        f"{at_least}**{ours / stock:.1f}**", "yes" if outcome.equal else "**no**", seed.cost,
        outcome.cost.text(), size(seed.budget),
    )  # fmt: skip


def text(framework, imports):
    return [
        f"Both train within one memory cgroup of the kernel, with no swap: the memory for tensors, "
        f"{size(imports)} that importing {framework.title} takes and {size(ALLOWANCE)} for all "
        f"else. Stock may fill all of it; Spillway's budget is the memory for tensors. `largest`: "
        f"{STEPS} steps were done; found by bisection, to 5 % for stock and to 10 % for Spillway, "
        f"and not searched beyond {CAP} times stock's. `equal`: losses and weights of {CHECKED} "
        f"steps at stock's largest are those of stock without a limit, bit for bit. `cost`: the "
        f"time of a step there, against stock without a limit, median of {PAIRS} pairs and range."
    ]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser, SEEDS)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch")
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to (docs/seed-tables.md)")
    add_directory(parser, "the spool")
    arguments = parser.parse_args()
    check_programs(parser, arguments, SEEDS)
    if arguments.program and arguments.write:
        parser.error("--write replaces the whole table: name no program")
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    if os.geteuid() != 0:
        print("needs root, for a limit on memory that the kernel holds", file=sys.stderr)
        return 1
    framework = FRAMEWORKS[arguments.framework]
    imports = resident_after((framework.module,))
    command = f"benchmarks/seed_tables.py --framework {arguments.framework}"
    page = arguments.page if arguments.write else None
    report = Report(page, command, arguments.directory, framework.package)
    rows, failed = [HEAD_ROW], False
    for name in arguments.program or SEEDS:
        seed = SEEDS[name]
        if framework.module == "torch" and not is_installed(name, seed.modules):
            continue
        say(f"{name}: {seed.claim}, {size(seed.budget)} for tensors")
        try:
            outcome = Trial(framework, seed, arguments.directory, imports).run()
        except (WorkerError, TooSlowError, UnavailableError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
            continue
        failed |= not outcome.equal
        rows.append(row(seed, outcome))
    body = [*text(framework, imports), "", *table(*rows)]
    report.add(f"seeds-{framework.module}", framework.title, body)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
