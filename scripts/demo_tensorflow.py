# SPDX-License-Identifier: Apache-2.0
"""Trains a Keras program in several ways and shows the runs side by side, and one step's memory.

1. auto: the first steps under SPILLWAY_BUDGET=auto, where all fits: the peak, and what it gains;
2. stock: TensorFlow alone, for the time, the losses and the weights to compare with;
3. stock under the limit: TensorFlow's own allocator is given no more than the budget
   (TF_CPU_ALLOCATOR_USE_BFC and TF_CPU_BFC_MEM_LIMIT_IN_MB), and the program must end with its
   ResourceExhaustedError; with half as much again as the peak some steps must run;
4. Spillway: the same program under that budget, 40 % of the peak;
5. drawn: some of those steps again, while a thread looks at the counters.

Exit status 1 if the weights or losses differ, the budget was exceeded, a run failed, or stock
TensorFlow trained within the limit.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from demo_parts import (
    ROOT,
    Budget,
    Demo,
    RunError,
    Trainer,
    add_arguments,
    bars,
    check_share,
    columns_of,
    comparison,
    end_on_sigterm,
    passed,
    show,
    size,
    summary,
    write_summary,
)
from rich.console import Console
from rich.text import Text

DEMO = Demo("digits, residual network in Keras", "digits_resnet", 30, 0.40, 12)
MIB = 1 << 20
CONTROL_STEPS = 3
DRAWN_STEPS = 12
COLUMNS, ROWS = 64, 12
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


class TrainedWithinLimitError(RunError):
    """The limit that stock TensorFlow had to fail at was none."""


def stock_limit(count):
    """Returns the variables by which stock TensorFlow allocates from a pool of whole MiB."""
    return QUIET | {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(count // MIB),
    }


def last_words(trainer, steps, budget):
    """Returns the words of stock TensorFlow when it ends at the limit."""
    try:
        trainer.run("stock-limited", steps, environment=stock_limit(budget))
    except RunError as failure:
        words = [line.strip() for line in failure.complaints if "OOM when allocating" in line]
        if not words:
            raise
        # The same line stands in the traceback, with its node and without.
        return failure.status, min(words, key=len)
    raise TrainedWithinLimitError(f"stock-limited: TensorFlow trained within {size(budget)}")


def whole_step(samples):
    """Those of the last step that began and ended among them; times from its begin, in seconds."""
    begins = [i for i in range(1, len(samples)) if samples[i]["steps"] > samples[i - 1]["steps"]]
    if len(begins) < 2:
        raise RunError("drawn: the steps are shorter than the samples are apart")
    part = samples[begins[-2] : begins[-1]]
    return [sample | {"time": sample["time"] - part[0]["time"]} for sample in part]


def stacked(memory, moved, budget, top):
    """Lines of a chart: bytes in memory below, those that pairs hold in the store above them."""
    lines = []
    for row in range(ROWS, 0, -1):
        level = (row - 0.5) * top / ROWS
        at_budget = row == min(ROWS, int(budget / top * ROWS) + 1)
        label = f"{size(budget):>8} ┤" if at_budget else f"{size(top) if row == ROWS else '':>8} │"
        line = Text(label)
        for below, above in zip(memory, moved):
            if level <= below:
                line.append("█", "green")
            elif level <= below + above:
                line.append("▒", "blue")
            else:
                line.append("─" if at_budget else " ", "red")
        lines.append(line)
    return lines


def growth(samples, name, columns):
    """Bytes that a counter rose by in each column."""
    values = [sample[name] for sample in samples]
    ends = columns_of(values, columns, lambda part: part[-1])
    return [after - before for before, after in zip([values[0], *ends], ends)]


def draw(samples, budget, console):
    """One step: memory, the tensors that its pairs moved away, and what they moved when."""
    step = whole_step(samples)
    live = columns_of([s["live_bytes"] for s in step], COLUMNS, max)
    stored = columns_of([s["disk_bytes"] + s["host_bytes"] for s in step], COLUMNS, max)
    top = max([budget.peak, *(a + b for a, b in zip(live, stored))])
    parts = ("█ in memory", "green"), ", ", ("▒ swapped out by pairs", "blue"), ", "
    head = f"memory over one step of {step[-1]['time']:.2f} s: "
    console.print(Text.assemble(head, *parts, ("─ budget", "red")))
    for line in stacked(live, stored, budget.granted, top):
        console.print(line)
    for name, words in (("evicted_bytes", "out"), ("fetched_bytes", "in")):
        moved = growth(step, name, COLUMNS)
        console.print(f"{words:>8}  {bars(moved)}", highlight=False)
        console.print(f"{'':>8}  {size(sum(moved))} in this step", highlight=False)


def measure(arguments, console):
    """The summary; raises RunError."""
    steps = arguments.steps or DEMO.steps
    folder = arguments.out / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(DEMO, arguments, folder, console)
    console.rule(DEMO.title)

    def managed_run(name, budget, stop=None, prefix=()):
        stats = folder / f"{name}.json"
        environment = QUIET | {"SPILLWAY_BUDGET": budget, "SPILLWAY_STATS": str(stats)}
        return trainer.run(name, steps, prefix, environment, stats, stop)

    stop = min(steps, arguments.auto_steps or DEMO.auto_steps)
    auto = managed_run("auto", "auto", stop)
    share = arguments.share or DEMO.share
    # Whole MiB, since that is how TensorFlow's own limit is stated.
    wanted = int(auto.stats["peak_live_bytes"] * share) // MIB * MIB
    budget = Budget(auto.stats["peak_live_bytes"], 0, wanted / auto.stats["peak_live_bytes"])
    for line in budget.lines():
        console.print(line, highlight=False)

    stock = trainer.run("stock", steps, environment=QUIET)
    status, words = last_words(trainer, steps, budget.granted)
    console.print(
        f"stock TensorFlow with TF_CPU_ALLOCATOR_USE_BFC=1 TF_CPU_BFC_MEM_LIMIT_IN_MB="
        f"{budget.granted // MIB} ended with status {status}:\n  {words}",
        highlight=False, markup=False,
    )  # fmt: skip
    room = budget.peak * 3 // 2
    trainer.run("stock-with-room", steps, environment=stock_limit(room), stop=CONTROL_STEPS)
    console.print(f"with {size(room)} in the same way it trains", highlight=False)
    managed = managed_run("managed", str(budget.granted))
    rows = comparison(stock, managed, auto, budget)
    show(DEMO, rows, stop, console)
    for note in managed.notes:
        console.print(note, highlight=False, markup=False)

    samples = folder / "samples.json"
    sampler = (sys.executable, str(ROOT / "scripts" / "demo_sampler.py"), str(samples))
    managed_run("drawn", str(budget.granted), min(steps, DRAWN_STEPS), sampler)
    draw(json.loads(samples.read_text(encoding="utf-8")), budget, console)
    return summary((auto, stock, managed, auto), budget, rows, []) | {"stock_at_limit": words}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--size", type=int, help="pictures in a batch")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo-tf")
    arguments = parser.parse_args()
    check_share(parser, arguments)
    return arguments


def main():
    end_on_sigterm()
    arguments = parse_arguments()
    # Recorded, so that what was shown can be kept as a picture.
    console = Console(width=80, record=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    try:
        result = measure(arguments, console)
    except RunError as failure:
        console.print(str(failure), style="bold red", highlight=False, markup=False)
        return 1
    took = time.monotonic() - begin
    console.print(f"all runs took {took / 60:.1f} min", highlight=False)
    picture = arguments.out / "digits.svg"
    console.save_svg(str(picture), title="make demo-tf", clear=False)
    console.print(f"written {picture}", highlight=False, markup=False)
    result |= {"seconds_of_all_runs": took, "files": [str(picture)]}
    write_summary({"digits": result}, arguments.out, console)
    return 0 if passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
