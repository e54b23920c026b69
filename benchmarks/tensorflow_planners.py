# SPDX-License-Identifier: Apache-2.0
"""How well planners predict the peak of a TensorFlow step, and how long it takes.

python -m benchmarks.tensorflow_planners [PROGRAM...] [--write]

Trains programs of tests/tensorflow long enough for a step under a plan to be measured, at shares of
their peak, and compares losses and weights bit for bit with stock TensorFlow's. Exit status 1 if
they differ, or if a run ended in another way than with TensorFlow's ResourceExhaustedError.
"""

import argparse
import os
import re
import sys
from pathlib import Path

from benchmarks.program_choice import add_page, add_program, check_programs, page_to_write
from benchmarks.report import Report, size, table
from benchmarks.tensorflow_budgets import AMPLE, NOTHING_LEAVES
from tests.tensorflow.programs.table import PROGRAMS
from tests.tensorflow.runner import Server, differences

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tensorflow-planners.md"
# Epochs by program, so that each trains some thirty steps.
EPOCHS = {"mlp": 16, "cnn": 8, "resnet": 10, "unet_2d": 10, "transformer": 10, "vae": 8}
SHARES = (0.8, 0.6)
PLANNERS = ("hybrid", "lms")
SECONDS = 300  # of one run
HEADS = (
    "program", "peak", "budget", "planner", "plans", "holes that copy", "predicted peak",
    "measured peak", "off by", "predicted step, ms", "last step, ms", "off by",
)  # fmt: skip


def off_by(measured, predicted, digits):
    """How far `measured` is from `predicted`; empty where one of them is missing."""
    return f"{measured / predicted - 1:+.{digits}%}" if measured and predicted else ""


def cells(told):
    """The figures of a run that ended well, as texts."""
    predicted, measured = told["predicted_peak_bytes"], told["measured_peak_bytes"]
    if not told["plans"]:
        return ("0", "", told["no_plan_because"], *[""] * 5)
    return (
        str(told["plans"]),
        str(told["pairs_copying"]),
        f"{predicted / 2**20:.1f} MiB",
        f"{measured / 2**20:.1f} MiB" if measured else "no step",
        off_by(measured, predicted, 1),
        f"{told['predicted_step_ns'] / 1e6:.0f}",
        f"{told['last_step_ns'] / 1e6:.0f}",
        off_by(told["last_step_ns"], told["predicted_step_ns"], 0),
    )


class Measurements:
    """The outcome of one program."""

    def __init__(self, server, program):
        self._server, self._program = server, program
        self._stock = self._train()
        still = self._train(SPILLWAY_BUDGET=AMPLE, SPILLWAY_MIN_SIZE=NOTHING_LEAVES)
        self.peak = still.statistics["peak_live_bytes"]
        self.troubles = []

    def _train(self, **variables):
        return self._server.train(self._program, SECONDS, EPOCHS[self._program], **variables)

    def row(self, share, planner):
        budget = int(self.peak * share)
        run = self._train(SPILLWAY_BUDGET=str(budget), SPILLWAY_PLANNER=planner)
        trouble = self._trouble(run)
        if trouble:
            self.troubles.append(f"{self._program}, {size(budget)}, {planner}: {trouble}")
        found = cells(run.statistics) if run.status == 0 else ("does not fit", *[""] * 7)
        return (self._program, size(self.peak), f"{share:.0%}", planner, *found)

    def _trouble(self, run):
        if run.status:
            refused = run.status > 0 and "ResourceExhaustedError" in run.errors
            told = re.sub(r"\s+", " ", run.errors[-300:])
            return "" if refused else f"ended with status {run.status}: {told}"
        different = differences(run, self._stock)
        return f"other values: {', '.join(different)}" if different else ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_program(parser, EPOCHS)
    add_page(parser, PAGE)
    options = parser.parse_args()
    check_programs(parser, options, EPOCHS)
    assert EPOCHS.keys() <= PROGRAMS.keys()
    rows, troubles = [HEADS], []
    with Server() as server:
        for program in options.program or EPOCHS:
            measured = Measurements(server, program)
            for share in SHARES:
                for planner in PLANNERS:
                    rows.append(measured.row(share, planner))
                    print(" | ".join(rows[-1]), flush=True)
            troubles += measured.troubles
    Report(
        page_to_write(options),
        "make tensorflow-planners",
        os.getcwd(),
        "tensorflow-cpu",
    ).add("planners", "How well do they predict?", table(*rows))
    print(*troubles, sep="\n")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
