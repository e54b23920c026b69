# SPDX-License-Identifier: Apache-2.0
"""The cost of Spillway for a program that does not need it: ratios to stock PyTorch.

Four questions: a program that fits into its budget, started by the variable; the same after
`enable()` in a program that has its tensors already, as in a notebook; the hook per event while it
watches; and `import torch` while nothing is set.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from paired_runs import (
    HERE,
    Spread,
    Worker,
    WorkerError,
    environment,
    exit_on_signals,
    gained,
    managed,
    stock_environment,
    turns,
)
from report import PAGE, Report, size, table, verdict

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Launch-bound networks feel the allocator most; from 256 on nothing should be left of it.
FIT_BOUNDS = {64: 1.05, 256: 1.02, 512: 1.02}
HOOK_WIDTH, HOOK_BOUND_US = 256, 0.6
IMPORT_BOUND = 1.02
AMPLE = 4 << 30


@dataclass(frozen=True)
class Effort:
    widths: tuple
    warm_up: int  # steps, enough for the hook to come to rest
    # Where its memory came to lie stays with a process for life and makes some percent, so each
    # round starts all processes anew.
    rounds: int
    pairs: int  # of a round
    steps: int  # of one turn
    imports: int
    control: bool = True  # also stock against stock

    def method(self):
        return (
            f"{self.pairs} pairs of {self.steps} steps in each of {self.rounds} rounds, which "
            "start all processes anew"
        )


FULL = Effort(widths=(64, 256, 512), warm_up=300, rounds=8, pairs=60, steps=25, imports=20)
QUICK = Effort(widths=(64, 256, 512), warm_up=300, rounds=4, pairs=30, steps=25, imports=10)
SMOKE = Effort(widths=(64,), warm_up=60, rounds=1, pairs=5, steps=20, imports=3, control=False)


def start(width, variables=None):
    """A stock worker, or with variables a managed one."""
    base = environment(**variables) if variables else stock_environment()
    return Worker("small_network.py", "--width", width, environment={**base, **ONE_THREAD})


def start_by_variable(width):
    return start(width, {"SPILLWAY_BUDGET": f"cpu:{AMPLE}"})


def start_as_notebook(width):
    """Trains before it calls enable()."""
    worker = start(width)
    worker.run(10)
    worker.ask("budget", AMPLE)
    return worker


def turns_when_it_fits(width, effort, begin):
    """Yields for each round the turns against stock, and those of stock against itself."""
    for _ in range(effort.rounds):
        with start(width) as stock:
            stock.run(effort.warm_up)
            with begin(width) as other:
                managed(other.run(effort.warm_up)[1])
                done = turns(stock, other, effort.pairs, effort.steps)
            yield done, stock_again(stock, width, effort)


def stock_again(stock, width, effort):
    if not effort.control:
        return []
    with start(width) as other:
        other.run(effort.warm_up)
        return turns(stock, other, effort.pairs, effort.steps)


def ratios(rounds):
    return Spread.of([turn.ratio for done in rounds for turn in done])


def cost_when_it_fits(effort, report):
    report.add(
        "overhead-fits", "What does a program pay that fits into its budget?",
        table_when_it_fits(effort, start_by_variable, "under a budget of 4 GiB"),
    )  # fmt: skip


def cost_in_a_notebook(effort, report):
    began = 'after `spillway.enable("4GiB")` in a program that had trained ten steps before'
    report.add(
        "overhead-notebook", "What does `enable()` cost a program that has its tensors already?",
        table_when_it_fits(effort, start_as_notebook, began),
    )  # fmt: skip


def table_when_it_fits(effort, begin, began):
    head = ("network", "against stock", "hook at rest", "stock against stock", "bound", "")
    rows = [head]
    for width in effort.widths:
        rounds, controls = zip(*turns_when_it_fits(width, effort, begin))
        # The count of ops stands still exactly while the hook rests.
        rest = all(done[-1].after["ops"] == done[0].before["ops"] for done in rounds)
        ratio = ratios(rounds)
        noise = ratios(controls).text(3) if effort.control else "not run"
        bound = FIT_BOUNDS[width]
        rows.append((f"4 x {width}", ratio.text(3), "yes" if rest else "**no**", noise, bound,
                     verdict(ratio.median, bound)))  # fmt: skip
    text = (
        f"Step time of a multi-layer perceptron, batch 64, SGD, one thread, {began}, "
        f"after {effort.warm_up} steps; {effort.method()}. `stock against stock` is what the "
        "method cannot tell apart."
    )
    return [text, "", *table(*rows)]


def peak_of_the_network():
    with start(HOOK_WIDTH, {"SPILLWAY_MODE": "record"}) as worker:
        return managed(worker.run(10)[1])["peak_device_bytes"]


class Under:
    """A worker while it is under a budget of this many bytes; 0: while the hook is off."""

    SETTLE = 10  # steps until what a change of the budget set in motion has ended

    def __init__(self, worker, budget):
        self.worker, self.budget = worker, budget

    def run(self, steps, timeout=120):
        self.worker.ask("budget", self.budget)
        self.worker.run(self.SETTLE, timeout)
        return self.worker.run(steps, timeout)


@dataclass(frozen=True)
class HookRound:
    alone: list  # turns of one process with the hook off, and on
    whole: list  # turns of stock, and of the process with the hook on
    events: float  # per step


def round_under(budget, effort):
    """None if bytes had to move."""
    with (
        start(HOOK_WIDTH) as stock,
        start(HOOK_WIDTH, {"SPILLWAY_BUDGET": f"cpu:{budget}"}) as other,
    ):
        stock.run(effort.warm_up)
        warm = managed(other.run(effort.warm_up)[1])
        if moved(other.run(effort.steps)[1]) != moved(warm):
            return None
        alone = turns(Under(other, 0), Under(other, budget), effort.pairs, effort.steps)
        other.ask("budget", budget)  # whichever of the two had the last turn
        whole = turns(stock, other, effort.pairs, effort.steps)
        # Last, lest the profiler leave something behind.
        return HookRound(alone, whole, stock.ask("events", 10)["events"])


def rounds_under(budget, effort):
    """None if bytes had to move."""
    rounds = []
    for _ in range(effort.rounds):
        done = round_under(budget, effort)
        if done is None:
            return None
        rounds.append(done)
    return rounds


def moved(counters):
    names = ("evicted_bytes", "clean_evicted_bytes", "fetched_bytes")
    return sum(counters[name] for name in names)


def cost_of_the_hook(effort, report):
    peak = peak_of_the_network()
    # From 125 % on the hook would rest.
    for percent in (1, 2, 5, 10, 15, 20):
        budget = peak * (100 + percent) // 100
        if rounds := rounds_under(budget, effort):
            break
    else:
        raise WorkerError(f"bytes move even under a budget of 120 % of the peak, {size(peak)}")
    alone, whole = [each.alone for each in rounds], [each.whole for each in rounds]
    steps = effort.rounds * effort.pairs * effort.steps
    ops = gained(whole, itemgetter("ops")) / steps
    if not ops:
        raise WorkerError("the hook rested: nothing was measured")
    events = rounds[0].events
    extra = [(turn.second - turn.first) * 1e6 for done in alone for turn in done]
    per_event = Spread.of([micros / events for micros in extra])
    per_op = Spread.of([micros / ops for micros in extra])
    text = (
        f"The network of 4 x {HOOK_WIDTH} under {size(budget)}, {percent} % above its peak of "
        f"{size(peak)}, so that the hook never rests and nothing moves "
        f"({size(gained(whole, moved))} in these turns), against the same process after "
        "`spillway.disable()`, which leaves memory where it lies and takes the hook off; "
        f"{effort.method()}. An *event* is anything the profiler of PyTorch sees: an operator at "
        "any depth, an autograd node, a user scope. An *outermost op* is one of "
        "`spillway.stats().ops`."
    )
    rows = table(
        ("what", "per step", "microseconds added to each", "bound", ""),
        ("event", f"{events:.0f}", per_event.text(), HOOK_BOUND_US,
         verdict(per_event.median, HOOK_BOUND_US)),
        ("outermost op", f"{ops:.0f}", per_op.text(), "", ""),
    )  # fmt: skip
    last = (
        f"The whole step against the hook off: {ratios(alone).text(3)}; against stock, in another "
        f"process: {ratios(whole).text(3)}."
    )
    report.add(
        "overhead-hook", "What does the hook cost while it watches?", [text, "", *rows, "", last]
    )


def import_seconds(*arguments, environment):
    command = [sys.executable, str(HERE / "import_torch.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkerError(f"import torch failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def cost_of_the_import(effort, report):
    import_seconds(environment=environment())  # from the disk into the page cache
    without, with_it, added = [], [], []
    for _ in range(effort.imports):
        added.append(import_seconds("--activate", environment=stock_environment()))
        without.append(added[-1]["import"])
        with_it.append(import_seconds(environment=environment())["import"])
    base = statistics.median(without)
    difference = statistics.median(with_it) - base
    ratio = 1 + difference / base
    pairs = Spread.of([ours / stock for ours, stock in zip(with_it, without)])
    names = ("search", "first", "again")
    search, first, again = (Spread.of([each[name] / base for each in added]) for name in names)
    text = (
        f"`import torch` in fresh processes without any `SPILLWAY_` variable; {effort.imports} "
        "pairs with the entry points of packages and without (`TORCH_DEVICE_BACKEND_AUTOLOAD=0`), "
        "which also spares PyTorch the search for them. The search and the entry point are timed "
        "alone, in a process that has just imported torch."
    )
    rows = table(
        ("what", "share of `import torch`", "bound", ""),
        ("with the package, ratio of medians", f"**{ratio:.4f}** (pairs {pairs.low:.3f} to "
         f"{pairs.high:.3f})", IMPORT_BOUND, verdict(ratio, IMPORT_BOUND)),
        ("the search for entry points, not ours", search.text(5), "", ""),
        ("entry point, first call, imports the package", first.text(5), f"{IMPORT_BOUND - 1:.2f}",
         verdict(first.median, IMPORT_BOUND - 1)),
        ("`activate()` called again", again.text(7), "", ""),
    )  # fmt: skip
    last = (
        f"In this run: difference of medians {difference * 1e3:+.2f} ms of {base * 1e3:.0f} ms; "
        f"first call {first.median * base * 1e3:.2f} ms; later ones "
        f"{again.median * base * 1e6:.2f} microseconds."
    )
    report.add(
        "overhead-import", "What does the package cost when it is installed but not used?",
        [text, "", *rows, "", last],
    )  # fmt: skip


QUESTIONS = {
    "fits": cost_when_it_fits,
    "notebook": cost_in_a_notebook,
    "hook": cost_of_the_hook,
    "import": cost_of_the_import,
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question", nargs="*", help=f"of {', '.join(QUESTIONS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter pairs")
    parser.add_argument("--smoke", action="store_true", help="as short as possible, not written")
    parser.add_argument("--page", type=Path, help="where to write (docs/benchmarks.md)")
    arguments = parser.parse_args()
    unknown = set(arguments.question) - set(QUESTIONS)
    if unknown:
        parser.error(f"no question {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    effort = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    page = arguments.page or (None if arguments.smoke else PAGE)
    mode = ["--quick"] * arguments.quick + ["--smoke"] * arguments.smoke
    command = " ".join(["benchmarks/bench_overhead.py", *arguments.question, *mode])
    report = Report(page, command)
    failed = False
    for name in arguments.question or QUESTIONS:
        try:
            QUESTIONS[name](effort, report)
        except WorkerError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
