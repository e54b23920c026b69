# SPDX-License-Identifier: Apache-2.0
"""The claims of the papers that Spillway continues, in miniature and executed.

Each says how much larger something can be that is trained in a given memory: batch, depth,
resolution, experts, sequence. Here both train within one memory cgroup, whose limit the kernel
holds: stock PyTorch and Spillway, the program unchanged. Needs root.
"""

import argparse
import enum
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench_speed import resident_after
from limited_trial import (
    ALLOWANCE,
    MIB,
    Comparison,
    LimitedTrial,
    NoLimit,
    in_memory,
    is_root,
    say,
)
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
from program_choice import (
    add_directory,
    add_page,
    add_program,
    check_programs,
    is_installed,
    page_to_write,
)
from report import ROOT, Report, size, table

sys.path.insert(0, str(ROOT))

from benchmarks.dated_table import DatedTable

PAGE = ROOT / "docs" / "seed-tables.md"
# Where the search for Spillway's largest ends, in stock's largest: no paper claims more.
CAP = 8
PAIRS = 5


@dataclass(frozen=True)
class Framework:
    """Whose programs are trained."""

    title: str
    module: str
    package: str  # as its version is told
    folder: str
    planners: tuple = ()  # that are executed for every seed, beside the papers' own
    repeatable: tuple = ()  # arguments with which stock's bits are the same in every run
    # Steps of a trial, and those whose losses are compared, and the weights after them. What is
    # made in the first is held in the second.
    steps: int = 3


FRAMEWORKS = {
    "torch": Framework("PyTorch", "torch", "torch", "programs"),
    "tensorflow": Framework(
        "TensorFlow",
        "tensorflow",
        "tensorflow-cpu",
        "programs_keras",
        ("hybrid",),
        ("--memory-optimization", "NO_MEM_OPT"),  # else sums are in any order
        steps=6,  # of which the last three follow a plan: two copy everything, and one is measured
    ),
}
LOOK_AHEAD = "look-ahead"  # stands in the table where no planner is named


@dataclass(frozen=True)
class Seed:
    """One claim, and the program that stands for it."""

    claim: str  # what grows, and in which network
    paper: str
    ratio: str  # as published
    cost: str  # as published
    planners: tuple  # of the papers
    script: str
    option: str  # that grows
    first: int  # where the search begins
    budget: int  # bytes for tensors
    fixed: tuple = ()
    granule: int = 1
    modules: tuple = ()  # that PyTorch's program needs besides
    patience: int = LimitedTrial.patience
    amount: Callable = int  # of what the claim counts, by the option's value

    def value_of(self, amount):
        """The option's value with that amount."""
        value = self.granule
        while self.amount(value) < amount:
            value += self.granule
        return value

    def arguments(self, framework, value, steps):
        return [
            HERE / framework.folder / self.script, "--steps", steps, f"--{self.option}", value,
            *self.fixed,
        ]  # fmt: skip


SEEDS = {
    "batch": Seed(
        "batch of ResNet-50 (64^2)", "TFLMS v2", "4.9", "-", ("lms",),
        "resnet50.py", "batch", 16, 640 * MIB, ("--size", 64), 2, ("torchvision",),
    ),
    "depth": Seed(
        "layers of a ResNet, third stage (32^2, batch 16)", "SuperNeurons, TensorFlowMem",
        "3.24, 3.8", "-", ("superneurons", "partitioned"),
        "deep_resnet.py", "blocks", 16, 160 * MIB, patience=900,
        amount=lambda blocks: 3 * (6 + 32 + 6 + blocks) + 2,
    ),
    "resolution": Seed(
        "voxels of a 3D U-Net (batch 1)", "TFLMS v2", "5.6", "-", ("lms:serialise-levels=on",),
        "unet3d.py", "size", 48, 384 * MIB, ("--batch", 1, "--width", 8), 16,
        amount=lambda edge: edge**3,
    ),
    "experts": Seed(
        "experts of a transformer (batch 8, Adam)", "TensorFlowMem", "4", "-", ("partitioned",),
        "experts.py", "experts", 8, 256 * MIB, patience=900,
    ),
    "sequence": Seed(
        "time steps of an unrolled RNN (batch 64)", "TensorFlowMem", "2", "1.30 to 1.36",
        ("partitioned",), "unrolled_rnn.py", "size", 64, 128 * MIB, ("--width", 256), patience=900,
    ),
}  # fmt: skip


class Limited(enum.Enum):
    """What has to fit into the memory."""

    PROCESS = ""  # all of it, by the kernel
    # As in the papers, whose memory was a card's: the graph lay in the host's. TensorFlow's
    # allocator has the limit in stock, as the budget is Spillway's.
    TENSORS = ", nothing else limited"

    def __str__(self):
        return self.value


# Where not the process alone is limited. TensorFlow's graph of the deep network takes 1.3 GiB with
# one block in the third stage, and 16 MiB more with each further one, many times what the block's
# tensors take in miniature (resident set of stock, 2026-11-26): the kernel's limit would be one of
# graphs. For experts and time steps it is in part, so both are measured.
LIMITED = {
    ("tensorflow", "depth"): (Limited.TENSORS,),
    ("tensorflow", "experts"): (Limited.PROCESS, Limited.TENSORS),
    ("tensorflow", "sequence"): (Limited.PROCESS, Limited.TENSORS),
}


def limits(framework, name):
    """Returns what is limited in the seed's rows, one after the other."""
    return LIMITED.get((framework.module, name), (Limited.PROCESS,))


@dataclass(frozen=True)
class Outcome:
    """The outcome of one seed with one planner."""

    planner: str
    limited: Limited
    stock: int  # the option's value
    spillway: int
    capped: bool
    plans: int  # made in the trial of Spillway's largest
    compared: Comparison  # at stock's largest
    cost: Spread  # seconds of a step at stock's largest, against stock without a limit


def planners(framework, seed):
    """Returns the planners that are executed for `seed`, or what stands for none."""
    if not framework.planners:
        return (LOOK_AHEAD,)
    return (*framework.planners, *seed.planners)


class Contest:
    """One seed: stock, and Spillway with each of its planners, in the same limit."""

    def __init__(self, framework, seed, limited, directory, imports, before):
        """`before`: by planner, stock's largest value and Spillway's where they are known."""
        self.framework, self.seed, self.limited = framework, seed, limited
        self.directory, self.before = directory, before
        self.room = seed.budget + imports + ALLOWANCE

    def outcomes(self):
        """Yields an Outcome per planner. Raises WorkerError where a side trains nothing at all."""
        seed = self.seed
        expected = next((stock for stock, _ in self.before.values()), None)
        stock = self.trial(self.stock()).largest(
            seed.first, granule=seed.granule, expected=expected
        )
        if not stock:
            raise WorkerError(f"stock trains nothing in {self.place()}")
        say(f"  stock: {stock.value}")
        first = 2 * stock.value
        for planner in planners(self.framework, seed):
            trial = self.trial(self.managed(planner))
            _, expected = self.before.get(planner, (None, None))
            ours = trial.largest(
                first, granule=seed.granule, cap=self.cap(stock.value), precision=0.1,
                expected=expected,
            )  # fmt: skip
            if not ours:
                raise WorkerError(f"{planner} trains nothing in {self.place()}")
            say(f"  {planner}: {ours.value}")
            first = ours.value
            both = min(stock.value, ours.value)
            yield Outcome(
                planner, self.limited, stock.value, ours.value, ours.capped,
                trial.plans[ours.value],
                trial.equals_stock(both, self.framework.steps, self.framework.repeatable),
                trial.cost(both, PAIRS),
            )  # fmt: skip

    def trial(self, variables):
        command = partial(self.seed.arguments, self.framework)
        limit = NoLimit if self.limited is Limited.TENSORS else in_memory(self.room)
        patience = self.seed.patience
        return LimitedTrial(command, limit, variables, self.framework.steps, patience)

    def place(self):
        """What both train in, for people."""
        of_tensors = self.limited is Limited.TENSORS
        return f"{size(self.seed.budget)} of tensors" if of_tensors else size(self.room)

    def stock(self):
        """The environment of stock, with its own limit where the kernel sets none."""
        if self.limited is Limited.PROCESS:
            return stock_environment()
        return stock_environment(
            TF_CPU_ALLOCATOR_USE_BFC="1",
            TF_CPU_BFC_MEM_LIMIT_IN_MB=str(self.seed.budget // MIB),
        )

    def managed(self, planner):
        """The environment of a program with this planner."""
        named = {} if planner == LOOK_AHEAD else {"SPILLWAY_PLANNER": planner}
        return environment(
            SPILLWAY_BUDGET=f"cpu:{self.seed.budget}", SPILLWAY_SPOOL_DIR=str(self.directory),
            SPILLWAY_SUMMARY="0", **named,
        )  # fmt: skip

    def cap(self, stock):
        """The option's value at which the amount is CAP times stock's."""
        return self.seed.value_of(CAP * self.seed.amount(stock))


EQUAL = {True: "yes", False: "**no**", None: "stock differs from itself"}
HEADS = (
    "what grows, and planner", "paper", "published", "stock's largest", "Spillway's largest",
    "ratio", "plans", "equal", "published cost", "cost at stock's largest", "memory for tensors",
)  # fmt: skip


def name_of(framework, name, limited, planner):
    """Returns the first cell of its row."""
    among_others = ", tensors alone" * (limited is not limits(framework, name)[0])
    return f"{SEEDS[name].claim}{among_others}: {planner}"


def plans(outcome):
    """Returns those made at Spillway's largest, and where it was compared with stock."""
    if outcome.planner == LOOK_AHEAD:
        return "-"
    return f"{outcome.plans}, {outcome.compared.plans}"


def row(framework, name, outcome):
    """Returns a row of the table: amounts, not values of the option."""
    seed = SEEDS[name]
    stock, ours = seed.amount(outcome.stock), seed.amount(outcome.spillway)
    at_least = "at least " * outcome.capped
    return (
        name_of(framework, name, outcome.limited, outcome.planner), seed.paper, seed.ratio,
        f"{stock:,}", f"{at_least}{ours:,}", f"{at_least}**{ours / stock:.1f}**", plans(outcome),
        EQUAL[outcome.compared.equal], seed.cost, outcome.cost.text(),
        f"{size(seed.budget)}{outcome.limited}",
    )  # fmt: skip


def found_before(kept, framework, name, limited):
    """By planner, the option's largest values in stock and Spillway that the page has."""
    seed = SEEDS[name]
    found = {}
    for planner in planners(framework, seed):
        cells = kept.row(name_of(framework, name, limited, planner))
        if cells:
            amounts = [int(re.sub(r"\D", "", cell)) for cell in cells[3:5]]
            found[planner] = tuple(map(seed.value_of, amounts))
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser, SEEDS)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch")
    parser.add_argument(
        "--limited", choices=[each.name.lower() for each in Limited],
        help="measure the rows in which this alone has to fit",
    )  # fmt: skip
    add_page(parser, PAGE)
    add_directory(parser, "the spool")
    arguments = parser.parse_args()
    check_programs(parser, arguments, SEEDS)
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    if not is_root():
        return 1
    framework = FRAMEWORKS[arguments.framework]
    seeds = {name: SEEDS[name] for name in arguments.program or SEEDS if has(framework, name)}
    names = [
        name_of(framework, name, limited, planner)
        for name, seed in SEEDS.items()
        for limited in limits(framework, name)
        for planner in planners(framework, seed)
    ]
    kept = DatedTable(
        arguments.page, f"seeds-{framework.module}", framework.title, HEADS, names,
        framework.package,
    )  # fmt: skip
    imports = resident_after((framework.module,))
    rows, failed = [HEADS], False
    contests = [
        (
            name,
            Contest(
                framework, seed, limited, arguments.directory, imports,
                found_before(kept, framework, name, limited),
            ),
        )
        for name, seed in seeds.items()
        for limited in limits(framework, name)
        if arguments.limited in (None, limited.name.lower())
    ]  # fmt: skip
    for name, contest in contests:
        say(f"{name}: {contest.seed.claim}, {size(contest.seed.budget)}{contest.limited}")
        try:
            for outcome in contest.outcomes():
                failed |= outcome.compared.equal is False
                rows.append(row(framework, name, outcome))
                if page_to_write(arguments):
                    kept.put(rows[-1])
        except (WorkerError, TooSlowError, UnavailableError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    command = f"benchmarks/seed_tables.py --framework {arguments.framework}"
    heading = f"{framework.title}, {size(imports)} by its import"
    Report(None, command, arguments.directory, framework.package).add("", heading, table(*rows))
    return int(failed)


def has(framework, name):
    """Whether the framework's program can be measured; says why not."""
    return framework.module != "torch" or is_installed(name, SEEDS[name].modules)


if __name__ == "__main__":
    sys.exit(main())
