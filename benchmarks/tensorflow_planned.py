# SPDX-License-Identifier: Apache-2.0
"""Trains every TensorFlow program under every planner: at 50 and 30 % of its peak, with the least
that the default planner trains in, and in fuzz.

python -m benchmarks.tensorflow_planned [PROGRAM...] [--write] [--since YYYY-MM-DD]

Every run is compared bit for bit with stock TensorFlow's. Brackets say how many plans it made. In
fuzz each of the graphs that a planner makes is tried: with pairs alone, with twins, with barriers,
with serialised levels.

Exit status 1 if a run gave other values, passed its budget, hung, or ended in another way than with
TensorFlow's ResourceExhaustedError.
"""

import sys

from benchmarks.report import size
from benchmarks.tensorflow_budgets import SHARES, Measurements, measure

PLANNERS = ("hybrid", "lms", "partitioned", "superneurons", "swap-critical-path")
# What puts ops into the graph, at its strongest; first pairs alone, then with twins alone.
IN_FUZZ = (
    "none", "superneurons", "hybrid", "partitioned:partition-size=5",
    "lms:serialise-levels=on,threshold=4,ahead=3",
)  # fmt: skip
HEADS = ("program", "peak", *PLANNERS, "in fuzz")


def row(program, measured):
    """Returns the cells, and what must not be."""
    cells, troubles = [], []

    def tried(budget, planner, **variables):
        found = measured.outcome(budget, SPILLWAY_PLANNER=planner, **variables)
        if found.trouble:
            troubles.append(f"{program}, {planner}, {size(found.budget)}: {found.trouble}")
        return found

    budgets = {f"{share:.0%}": int(measured.peak * share) for share in SHARES}
    if least := measured.least():
        budgets[size(least.budget)] = least.budget
    for planner in PLANNERS:
        found = {name: tried(budget, planner) for name, budget in budgets.items()}
        trained = [f"{name} ({one.plans})" for name, one in found.items() if one.trained]
        wrong = any(outcome.trouble for outcome in found.values())
        cells.append("**wrong**" if wrong else ", ".join(trained) or "none")
    fuzzed = [tried(None, planner, SPILLWAY_MODE="fuzz") for planner in IN_FUZZ]
    if not all(outcome.trained for outcome in fuzzed) and not troubles:
        troubles.append(f"{program}: did not end in fuzz")
    cells.append("equal" if all(outcome.trained for outcome in fuzzed) else "**wrong**")
    return (program, size(measured.peak), *cells), measured.troubles() + troubles


def rows_of(server):
    def row_of(program):
        cells, troubles = row(program, Measurements(server, program))
        print(" | ".join(cells), *troubles, sep="\n", flush=True)
        return cells, troubles

    return row_of


def main():
    question = "Does it train under every planner?"
    return measure(__doc__, "make tensorflow-planned", "planned", question, HEADS, rows_of)


if __name__ == "__main__":
    sys.exit(main())
