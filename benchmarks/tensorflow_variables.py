# SPDX-License-Identifier: Apache-2.0
"""How much memory a TensorFlow program needs for its variables, by budget.

python -m benchmarks.tensorflow_variables [BUDGET...] [--write]

Trains benchmarks/programs_keras/wide_embedding.py alone, with room for all, and within each budget,
and compares losses and weights bit for bit. Exit status 1 if they differ or a budget was passed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.program_choice import add_page, page_to_write
from benchmarks.report import Report, size, table
from tests.tensorflow.runner import MIB, environment

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tensorflow.md"
PROGRAM = "benchmarks/programs_keras/wide_embedding.py"
BUDGETS = (320, 160, 120, 96, 68)  # MiB
AMPLE = 4096
STEPS = 6
FIRST = 3  # steps left out of times: traced, and everything copies
HEADS = (
    "budget", "variables", "built", "between steps", "step peak", "resident", "moved per step",
    "s per step", "to alone",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    status: int
    errors: str
    built: dict  # what the allocator held when all variables were there
    steps: list
    weights: str
    statistics: dict
    resident: int  # bytes, the most

    @property
    def seconds(self):
        return statistics.median(step["seconds"] for step in self.steps[FIRST:])

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]

    @property
    def moved(self):
        both = self.statistics["evicted_bytes"] + self.statistics["fetched_bytes"]
        return both / len(self.steps)


def idle_bytes():
    """Resident in a process that only imports."""
    process = subprocess.Popen([sys.executable, "-c", "import keras"], env=environment())
    return os.wait4(process.pid, 0)[2].ru_maxrss * 1024


def train(**variables):
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "statistics.json")
        errors = Path(folder, "errors")
        if variables:
            variables["SPILLWAY_STATS"] = str(told)
        with errors.open("w") as complaints:
            process = subprocess.Popen(
                [sys.executable, ROOT / PROGRAM, "--steps", str(STEPS)],
                env=environment(**variables), stdout=subprocess.PIPE, stderr=complaints, text=True,
            )  # fmt: skip
            lines = [json.loads(line) for line in process.stdout]
            _, status, usage = os.wait4(process.pid, 0)
        return Run(
            os.waitstatus_to_exitcode(status),
            errors.read_text(errors="replace"),
            next((line["built"] for line in lines if "built" in line), {}),
            [line for line in lines if "step" in line],
            next((line["weights"] for line in lines if "weights" in line), ""),
            json.loads(told.read_text()) if told.exists() else {},
            usage.ru_maxrss * 1024,
        )


def row(budget, run, alone, idle):
    """`idle`: bytes of a process that only imports."""
    last = run.steps[-1]
    return (
        f"{budget} MiB" if budget < AMPLE else "all fits",
        size(run.statistics["peak_variable_bytes"]),
        size(run.built["peak"]),
        size(last["bytes"]),
        size(max(step["peak"] for step in run.steps)),
        size(run.resident - idle),
        size(run.moved),
        f"{run.seconds:.2f}",
        f"{run.seconds / alone.seconds:.1f}",
    )


def trouble(budget, run, alone):
    if run.status:
        return f"{budget} MiB: ended with status {run.status}: {run.errors[-300:]}"
    if (run.losses, run.weights) != (alone.losses, alone.weights):
        return f"{budget} MiB: other losses or weights"
    if run.statistics["peak_device_bytes"] > budget * MIB:
        return f"{budget} MiB: went past its budget"
    return ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("budgets", nargs="*", type=int, metavar="BUDGET", help="MiB")
    add_page(parser, PAGE)
    options = parser.parse_args()
    idle = idle_bytes()
    alone = train()
    rows, troubles = [HEADS], []
    for budget in (AMPLE, *(options.budgets or BUDGETS)):
        run = train(SPILLWAY_BUDGET=f"{budget}MiB")
        troubles.append(trouble(budget, run, alone))
        if not run.status:
            rows.append(row(budget, run, alone, idle))
            print(" | ".join(rows[-1]), flush=True)
    page = page_to_write(options)
    Report(page, "make tensorflow-variables", os.getcwd(), "tensorflow-cpu").add(
        "variables", "How much memory do variables take?",
        [
            f"`{PROGRAM}`: {STEPS} steps, times of those after the first {FIRST}, alone "
            f"{alone.seconds:.2f} s. Losses and weights are those of the program alone, bit for "
            "bit.",
            "",
            *table(*rows),
        ],
    )  # fmt: skip
    troubles = [each for each in troubles if each]
    print(*troubles, sep="\n")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
