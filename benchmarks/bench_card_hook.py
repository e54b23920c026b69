# SPDX-License-Identifier: Apache-2.0
"""The cost of Spillway's hook for a program on a card: against stock PyTorch, on a card where there
is one, else on the stand-in.

What is launched on the stand-in is computed by the processor, on another thread than the program's.
So the microseconds that an op costs more are the hook's, and ratios are no more than a hint at a
card.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

import torch
from bench_overhead import SMOKE, Effort
from paired_runs import (
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
from report import PAGE, ROOT, Report, table, verdict

sys.path.insert(0, str(ROOT))
from tests.standin import run as stand_in

MIB = 1 << 20
WIDTH = 64
HAS_CARD = torch.cuda.is_available()
# A real card's context and libraries take some 600 MiB; the stand-in has 1 GiB.
AMPLE = (8192 if HAS_CARD else 768) * MIB
# Beside what is held, so that the hook watches although nothing moves: it rests below 80 %.
HELD = 256 * MIB
TIGHT = 0.9
THOUSANDS = 3  # of launches, a turn of the loop
EFFORT = Effort(widths=(WIDTH,), warm_up=100, rounds=4, pairs=40, steps=25, imports=0)
RESTING_BOUND = 1.01
WATCHING_BOUND_US = 2.0


def card(**variables):
    """The environment of a worker on the card, or with the stand-in for one."""
    # The delays that the stand-in makes before each task would count our events as work.
    stand_ins = {} if HAS_CARD else {**stand_in.variables(), "STAND_IN_DELAY_US": "0"}
    chosen = environment if "SPILLWAY_BUDGET" in variables else stock_environment
    return chosen(**variables, **stand_ins)


def network(variables):
    """A worker that trains a small network: stock, or with a budget among the variables."""
    device = "cuda" if HAS_CARD else "stand-in"
    arguments = ("--width", WIDTH, "--device", device, "--held", HELD)
    return Worker("small_network.py", *arguments, environment=card(**variables))


def loop(variables):
    """One that launches additions alone."""
    return Worker("launch_loop.py", environment=card(STAND_IN_KERNELS="skip", **variables))


def under(budget):
    return {"SPILLWAY_BUDGET": f"cuda:{budget}", "SPILLWAY_SUMMARY": "0"}


def rounds_under(budget, effort, start=network):
    """Turns of stock and of a process with this budget, anew for each round."""
    rounds = []
    for _ in range(effort.rounds):
        with start({}) as stock, start(under(budget)) as other:
            stock.run(effort.warm_up)
            managed(other.run(effort.warm_up)[1])
            rounds.append(turns(stock, other, effort.pairs, effort.steps))
    return rounds


def tight_budget(start=network):
    with start(under(AMPLE)) as worker:
        return int((HELD + worker.run(10)[1]["unmanaged_bytes"]) / TIGHT)


def row(name, rounds, steps):
    every = [turn for done in rounds for turn in done]
    ratio = Spread.of([turn.ratio for turn in every])
    ops = gained(rounds, lambda counters: counters["ops"]) / steps
    if ops == 0:
        bound = (RESTING_BOUND, verdict(ratio.median, RESTING_BOUND))
        return name, ratio.text(3), "0", "", *bound
    per_op = Spread.of([(turn.second - turn.first) * 1e6 / ops for turn in every])
    bound = (f"{WATCHING_BOUND_US} µs", verdict(per_op.median, WATCHING_BOUND_US))
    return name, ratio.text(3), f"{ops:.0f}", per_op.text(), *bound


def cost(effort, report):
    steps = effort.rounds * effort.pairs * effort.steps
    thousands = dataclasses.replace(effort, warm_up=5, steps=THOUSANDS)
    launches = effort.rounds * effort.pairs * THOUSANDS
    rows = [
        ("budget", "step against stock", "ops seen in a step", "microseconds added to each",
         "bound", ""),
        row("ample: the hook may rest", rounds_under(AMPLE, effort), steps),
        row("little above what is held: it watches", rounds_under(tight_budget(), effort), steps),
        row("the same, in a loop of launches",
            rounds_under(tight_budget(loop), thousands, loop), launches),
    ]  # fmt: skip
    where = (
        torch.cuda.get_device_name(0)
        if HAS_CARD
        else "the stand-in card, which the processor computes for"
    )
    text = (
        f"A perceptron of 4 x {WIDTH}, batch 64, SGD, on {where}; {HELD // MIB} MiB are held "
        f"beside it. After {effort.warm_up} steps; {effort.method()}. The loop launches additions "
        f"in place, each thousand of them a step, {THOUSANDS} a turn; on the stand-in launches do "
        "nothing."
    )
    question = "What does the hook cost a program on a card that fits?"
    report.add("overhead-card", question, [text, "", *table(*rows)])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="as short as possible, not written")
    parser.add_argument("--rounds", type=int, default=EFFORT.rounds)
    parser.add_argument("--write", action="store_true", help=f"to {PAGE.relative_to(ROOT)}")
    parser.add_argument("--page", type=Path, help="where to write instead")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    exit_on_signals()
    if not HAS_CARD and not stand_in.libraries():
        print("Not measured: no card, and no stand-in: PyTorch has to be a build for CUDA 13.")
        return 0
    effort = SMOKE if arguments.smoke else dataclasses.replace(EFFORT, rounds=arguments.rounds)
    page = arguments.page or (PAGE if arguments.write else None)
    try:
        cost(effort, Report(page, "benchmarks/bench_card_hook.py"))
    except WorkerError as error:
        print(f"bench_card_hook.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
