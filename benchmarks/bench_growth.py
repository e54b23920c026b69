# SPDX-License-Identifier: Apache-2.0
"""Does an op cost more as a program holds more storages, or runs for longer?

python benchmarks/bench_growth.py [--programs build/bench/benchmarks] [--directory DIR] [--write]

Runs spillway_growth. Times are the processor's, with those of the threads that copy; of several
runs the least counts, since others can only add to it.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from report import PAGE, ROOT, Report, size, table, verdict

LIVE = (1_000, 5_000, 50_000)
STEPS = 100_000
# Most that the largest may cost beside the smallest, and the last tenth of a run beside the second.
# With a look at all that is live, and a search at each move, it was 66 and 1.5 (2026-11-24).
LIVE_BOUND = 3
SHAPES_BOUND = 1.25
# Most that memory may grow from the first tenth to the last: the history of the step recogniser,
# which ends at 56 MiB.
MEMORY_BOUND = 56 << 20


def run(programs, question, count, directory):
    command = [str(programs / "spillway_growth"), question, str(count), str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def live_lines(programs, directory, repeats):
    rows = [["live storages", "evictions", "microseconds per op", "first shortage"]]
    costs = []
    for count in LIVE:
        runs = [run(programs, "live", count, directory) for _ in range(repeats)]
        best = min(runs, key=lambda one: one["cost"]["processor_us_per_op"])
        costs.append(best["cost"]["processor_us_per_op"])
        first = best["first"]["processor_us_per_op"]
        rows.append([f"{count:,}", best["left"], f"{costs[-1]:.1f}", f"{first:,.0f}"])
    ratio = costs[-1] / costs[0]
    told = f"{LIVE[-1]:,} against {LIVE[0]:,}: **{ratio:.2f}** (at most {LIVE_BOUND}: "
    return [*table(*rows), "", f"{told}{verdict(ratio, LIVE_BOUND)})."]


def shapes_lines(programs, directory, steps):
    tenths = run(programs, "shapes", steps, directory)["tenths"]
    rows = [["tenth of the run", "microseconds per op", "memory of the process"]]
    for number in (0, 1, 4, 9):
        tenth = tenths[number]
        cost = tenth["cost"]["processor_us_per_op"]
        rows.append([number + 1, f"{cost:.2f}", size(tenth["resident"])])
    ratio = tenths[9]["cost"]["processor_us_per_op"] / tenths[1]["cost"]["processor_us_per_op"]
    grown = tenths[9]["resident"] - tenths[0]["resident"]
    return [
        *table(*rows),
        "",
        f"Last against second tenth: **{ratio:.2f}** (at most {SHAPES_BOUND}: "
        f"{verdict(ratio, SHAPES_BOUND)}); memory from first to last "
        f"+{size(max(grown, 0))} (at most {size(MEMORY_BOUND)}: "
        f"{verdict(grown, MEMORY_BOUND)}).",
    ]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, default=ROOT / "build" / "bench" / "benchmarks")
    parser.add_argument("--directory", default="/var/tmp", help="for the spool")
    parser.add_argument("--write", action="store_true", help="write the answer into the page")
    parser.add_argument("--smoke", action="store_true", help="does it still run?")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    global LIVE
    if options.smoke:
        LIVE = (100, 1_000)
    page = PAGE if options.write and not options.smoke else None
    report = Report(page, f"benchmarks/bench_growth.py{' --write' if options.write else ''}")
    lines = [
        "Storages of 36 KiB fill the budget; each of 500 ops makes one more, so that one leaves. "
        "Another op before each uses one that stays. Processor time of the process, the least of "
        "5. The first shortage puts in order what was used until then, which each use pays once.",
        "",
        *live_lines(options.programs, options.directory, 1 if options.smoke else 5),
        "",
        f"{STEPS if not options.smoke else 1000:,} steps of four ops, each in a shape of its own: "
        "two new storages a step of a size that never comes again, half of which leave.",
        "",
        *shapes_lines(options.programs, options.directory, 1_000 if options.smoke else STEPS),
    ]
    report.add("growth", "Does an op cost more as a program holds more, or runs for longer?", lines)


if __name__ == "__main__":
    main()
