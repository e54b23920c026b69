# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of planning and the quality of the plans.

python benchmarks/bench_planning.py [--programs build/bench/benchmarks] [--every N] [--write]

Runs spillway_planning_speed, the command `spillway plan` itself and spillway_planner_corpus. Times
are of the processor.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import PAGE, ROOT, Report, table, verdict

# The bounds of the figures of spillway_planning_speed, by number of ops and column.
SPEED_BOUNDS = {
    (100_000, "simulate"): 0.5,
    (100_000, "all"): 2,
    (100_000, "refusal"): 2,
    (1_000_000, "all"): 30,
    (1_000_000, "refusal"): 30,
}
# Seconds of `spillway plan`, the process as a whole.
COMMAND_BOUNDS = {100_000: 2, 1_000_000: 30}
BYTES_PER_OP_BOUND = 60
EXPONENT_BOUND = 1.15
OVER_BOUND = 1.15
CORPUS_CASES = 220
# Without the others' plans hybrid may be worse than they in this share of the cases, by this much.
ALONE_WORSE_IN = 0.05
ALONE_WORSE_BY = 0.01
# hybrid searches for two seconds on the shorter steps: it has an exponent only above them.
LONGEST = 1_000_000
SEEDED = "hybrid --seed all"
ALONE = "hybrid --borrow off"


def run(program, *arguments):
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def command_use(command, programs, ops):
    """Processor seconds and resident MiB of one `spillway plan` of a generated step."""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder, "step.json.zst"))
        run(programs / "spillway_planning_speed", "write", ops, trace)
        words = [str(command), "plan", trace, "--machine", "v100-pcie", "--budget", "50%",
                 "--host", "1PiB", "-o", str(Path(folder, "plan.json.zst"))]  # fmt: skip
        with open(os.devnull, "wb") as nothing:
            child = subprocess.Popen(words, stdout=nothing)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{words} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def command_lines(command, programs, most_ops):
    rows = []
    for ops, bound in COMMAND_BOUNDS.items():
        if ops > most_ops:
            continue
        seconds, resident = command_use(command, programs, ops)
        told = f"{seconds:.2f}{against(seconds, bound)}"
        rows.append([f"{ops:,}", told, f"{resident:,.0f}"])
    return table(["ops", "processor seconds", "resident MiB"], *rows) if rows else []


def against(value, bound):
    """The bound in brackets, with a word where it is missed."""
    return f" (≤ {bound}){' **missed**' * (value > bound)}"


def speed_lines(text):
    """The table that the program prints, with the bound beside what has one."""
    head, *rows = (line.split() for line in text.splitlines() if line.strip())
    shown = [head]
    for row in rows:
        cells = [row[0]]
        for name, value in zip(head[1:], row[1:], strict=False):
            bound = None
            if row[0] == "exponent":
                searched = name in ("hybrid", "all") and int(rows[-2][0]) < LONGEST
                value = "-" if searched else value
                bound = None if searched else EXPONENT_BOUND
            elif name == "bytes/op":
                bound = BYTES_PER_OP_BOUND
            else:
                bound = SPEED_BOUNDS.get((int(row[0]), name))
            cells.append(value + ("" if bound is None else against(float(value), bound)))
        shown.append(cells + [""] * (len(head) - len(cells)))
    return table(*shown)


def cases_of(text):
    """One dictionary a case; see planner_corpus.cpp for the columns."""
    cases = []
    for line in text.splitlines():
        fields = line.split("\t")
        steps = {fields[i]: float(fields[i + 1]) for i in range(9, len(fields), 3)}
        cases.append(
            {
                "step": fields[1],
                "share": float(fields[4]),
                "compute": float(fields[7]),
                "bound": float(fields[8]),
                "steps": steps,
            }
        )
    return cases


def slowdown(cases, planner):
    """`1.23 (4 of 5)`: the mean of step over bound, and in how many cases there is a plan."""
    over = [case["steps"][planner] / case["bound"] for case in cases if case["steps"][planner]]
    if not over:
        return "no plan"
    of = "" if len(over) == len(cases) else f" ({len(over)} of {len(cases)})"
    return f"{statistics.mean(over):.2f}{of}"


def corpus_lines(cases):
    shares = sorted({case["share"] for case in cases})
    names = list(cases[0]["steps"])
    head = ["planner", *("2 % above the least" if s == 0 else f"{s:.0%}" for s in shares), "all"]
    rows = [
        [name, *(slowdown([c for c in cases if c["share"] == s], name) for s in shares),
         slowdown(cases, name)]
        for name in names
    ]  # fmt: skip
    return [*table(head, *rows), "", *verdict_lines(cases, names)]


def verdict_lines(cases, names):
    others = [name for name in names if not name.startswith("hybrid")]
    worse = {"hybrid": [], ALONE: [], SEEDED: []}
    without = 0
    for case in cases:
        best = min((case["steps"][name] for name in others if case["steps"][name]), default=None)
        if best is None:
            continue
        for name, found in worse.items():
            step = case["steps"][name]
            if not step:
                without += name != ALONE
                found.extend([float("inf")] if name == ALONE else [])
            elif step > best:
                found.append(step / best - 1)
    over = statistics.mean(c["steps"]["hybrid"] / c["bound"] for c in cases if c["steps"]["hybrid"])
    most = max(worse["hybrid"], default=0)
    alone = worse[ALONE]
    far = sum(more > ALONE_WORSE_BY for more in alone)
    allowed = len(cases) * ALONE_WORSE_IN
    used = max(len(alone) / allowed, max(alone, default=0) / ALONE_WORSE_BY)  # of what is allowed
    return [
        f"{len(cases)} of the corpus's {CORPUS_CASES} cases. hybrid is worse than the best of the "
        f"others in {len(worse['hybrid'])} (by {most:.2%} at most), with their plans as seeds in "
        f"{len(worse[SEEDED])} (0 wanted: {verdict(len(worse[SEEDED]), 0)}), and has no plan where "
        f"another has one in {without} (0 wanted: {verdict(without, 0)}); it takes the "
        f"others' plans where they are better. Without them (`--borrow off`) it is worse in "
        f"{len(alone)}, in {far} of them by more than 1 % ({max(alone, default=0):.2%} at "
        f"most; wanted: in no more than {allowed:.0f}, by no more than 1 %: "
        f"{verdict(used, 1)}). "
        f"Its step is {over:.2f} of the bound on average (at most {OVER_BOUND} wanted: "
        f"{verdict(over, OVER_BOUND)})."
    ]


def add_speed(report, arguments):
    """The section on planning time; returns its lines."""
    command = arguments.command or arguments.programs.parent / "tools" / "spillway"
    speed = (
        arguments.speed.read_text(encoding="utf-8")
        if arguments.speed
        else run(arguments.programs / "spillway_planning_speed", arguments.most_ops)
    )
    lines = [
        "Seconds of the processor, on generated steps of training, at half of their peak with "
        "ample host memory. `all` reads, plans by hybrid, simulates and bounds, the parts of "
        "`spillway plan` called as functions; on steps of up to some 30 000 ops hybrid "
        "searches for two seconds. `refusal` is the answer that nothing fits where the host "
        "has a twelfth of the peak, with the least budget that would do. The least of "
        "three; the exponent is that of the last factor of ten.",
        "",
        *speed_lines(speed),
        "",
        "The command itself, `spillway plan FILE --budget 50% -o PLAN` on the same steps as "
        "files: user and system time of the process, measured once, and its most memory.",
        "",
        *command_lines(command, arguments.programs, arguments.most_ops),
    ]
    report.add(
        "planning-speed", "What does planning cost, and how does it grow with the step?", lines
    )
    return lines


def add_corpus(report, arguments):
    """The section on the corpus; returns its lines."""
    corpus = (
        arguments.corpus.read_text(encoding="utf-8")
        if arguments.corpus
        else run(arguments.programs / "spillway_planner_corpus", ROOT, arguments.every)
    )
    lines = [
        "Step over bound, by the device budget on the way from the least that can be planned "
        "for to the peak.",
        "",
        *corpus_lines(cases_of(corpus)),
    ]
    report.add(
        "planning-corpus",
        "How much longer than the lower bound is a step under each planner's plan?",
        lines,
    )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, default=ROOT / "build/bench/benchmarks")
    parser.add_argument("--command", type=Path, help="spillway; else the one built beside those")
    parser.add_argument("--only", choices=("speed", "corpus"), help="one of the two questions")
    parser.add_argument("--every", type=int, default=1, help="take each N-th case of the corpus")
    parser.add_argument("--corpus", type=Path, help="what spillway_planner_corpus printed before")
    parser.add_argument("--speed", type=Path, help="what spillway_planning_speed printed before")
    parser.add_argument("--most-ops", type=int, default=1_000_000)
    parser.add_argument("--smoke", action="store_true", help="as short as it can be")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.every, arguments.most_ops = 60, 10_000
    # Where programs and their output lie is nobody else's business.
    part = f" --only {arguments.only}" if arguments.only else ""
    part += f" --every {arguments.every}" if arguments.every != 1 else ""
    report = Report(
        PAGE if arguments.write else None, f"python benchmarks/bench_planning.py{part} --write"
    )
    lines = []
    if arguments.only != "corpus":
        lines += add_speed(report, arguments)
    if arguments.only != "speed":
        lines += add_corpus(report, arguments)
    return 1 if any("missed" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
