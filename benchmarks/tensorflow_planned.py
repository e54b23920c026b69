# SPDX-License-Identifier: Apache-2.0
"""Trains every TensorFlow program under every planner, at 50 and 30 % of its peak and in fuzz.

python -m benchmarks.tensorflow_planned [PROGRAM...] [--write] [--since YYYY-MM-DD]

Every run is compared bit for bit with stock TensorFlow's. In fuzz each of the graphs that a planner
makes is tried: with twins, with barriers, with serialised levels.

Exit status 1 if a run gave other values, passed its budget, hung, or ended in another way than with
TensorFlow's ResourceExhaustedError.
"""

import argparse
import os
import sys

from benchmarks.dated_table import DatedTable
from benchmarks.program_choice import add_page, add_program, check_programs, page_to_write
from benchmarks.report import Report, size, table
from benchmarks.tensorflow_budgets import PAGE, SHARES, Measurements, add_since, measures
from tests.tensorflow.programs.table import PROGRAMS
from tests.tensorflow.runner import Server

PLANNERS = ("hybrid", "lms", "partitioned", "superneurons", "swap-critical-path")
# What puts ops into the graph, at its strongest.
IN_FUZZ = ("hybrid", "partitioned:partition-size=5", "lms:serialise-levels=on,threshold=4,ahead=3")
HEADS = ("program", "peak", *PLANNERS, "in fuzz")


def row(program, measured):
    """Returns the cells, and what must not be."""
    cells, troubles = [], []

    def tried(budget, planner, **variables):
        found = measured.outcome(budget, SPILLWAY_PLANNER=planner, **variables)
        if found.trouble:
            troubles.append(f"{program}, {planner}, {size(found.budget)}: {found.trouble}")
        return found

    for planner in PLANNERS:
        found = [(share, tried(int(measured.peak * share), planner)) for share in SHARES]
        trained = [f"{share:.0%}" for share, outcome in found if outcome.trained]
        wrong = any(outcome.trouble for _, outcome in found)
        cells.append("**wrong**" if wrong else ", ".join(trained) or "neither")
    fuzzed = [tried(None, planner, SPILLWAY_MODE="fuzz") for planner in IN_FUZZ]
    if not all(outcome.trained for outcome in fuzzed) and not troubles:
        troubles.append(f"{program}: did not end in fuzz")
    cells.append("equal" if all(outcome.trained for outcome in fuzzed) else "**wrong**")
    return (program, size(measured.peak), *cells), troubles


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_program(parser, PROGRAMS)
    add_page(parser, PAGE)
    add_since(parser)
    options = parser.parse_args()
    check_programs(parser, options, PROGRAMS)
    question, framework = "Does it train under every planner?", "tensorflow-cpu"
    kept = DatedTable(options.page, "planned", question, HEADS, PROGRAMS, framework)
    rows, troubles = [HEADS], []
    with Server() as server:
        for program in filter(measures, options.program or PROGRAMS):
            if options.since and kept.is_measured(program, options.since):
                continue
            cells, wrong = row(program, Measurements(server, program))
            print(" | ".join(cells), *wrong, sep="\n", flush=True)
            rows.append(cells)
            troubles += wrong
            if page_to_write(options):
                kept.put(cells)
    Report(None, "make tensorflow-planned", os.getcwd(), framework).add("", question, table(*rows))
    print(*troubles, sep="\n")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
