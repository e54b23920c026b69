# SPDX-License-Identifier: Apache-2.0
"""The graphics card that a benchmark measures: which machine file is its own, times by its own
clock, and the sentence that says what figures were taken on."""

import argparse
import gc
import statistics
from pathlib import Path

import report
import torch

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gpu" / "measured.md"
#: A word of the card's name, and its machine file.
MACHINES = {
    "H100": "h100",
    "H200": "h200",
    "GH200": "gh200",
    "A100": "a100",
    "4090": "rtx-4090",
}
_QUEUED_CYCLES = 40_000_000  # some 20 ms, in which PyTorch issues some 2000 ops


class CardReport(report.Report):
    """A report that names the card before the machine it is in."""

    def machine(self):
        card = f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}"
        return f"{card}. {super().machine()}"


def machine_name():
    """The machine file of the card here, or None."""
    words = torch.cuda.get_device_name(0).split()
    return next((machine for word, machine in MACHINES.items() if word in words), None)


def milliseconds(work, repeats, queued=False):
    """The median time of `work` by the card's clock. `queued`: the card has been told all of it
    before it begins, so that what PyTorch takes to tell it does not count."""
    taken = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if queued:
            torch.cuda._sleep(_QUEUED_CYCLES)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def free_card_memory():
    """Gives the card's memory back."""
    gc.collect()
    torch.cuda.empty_cache()


def run(questions, description):
    """The command line of a benchmark: `questions` maps a name to a function of report, machine
    and whether it is a smoke test. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("questions", nargs="*", help=f"{', '.join(questions)}; all by default")
    parser.add_argument("--machine", help="machine file; found by the card's name by default")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--page", type=Path, help="another page to write to")
    parser.add_argument("--smoke", action="store_true", help="as little as can be")
    options = parser.parse_args()
    if unknown := [name for name in options.questions if name not in questions]:
        parser.error(f"unknown question {unknown[0]}; there are: {', '.join(questions)}")
    if not torch.cuda.is_available():
        print(f"{parser.prog}: no graphics card here, nothing measured")
        return 0
    machine = options.machine or machine_name()
    if machine is None:
        parser.error(f"no machine file is known for {torch.cuda.get_device_name(0)}: name one")
    page = options.page or (PAGE if options.write else None)
    told = CardReport(page, " ".join(["python", f"benchmarks/{parser.prog}", *options.questions]))
    for name in options.questions or questions:
        questions[name](told, machine, options.smoke)
    return 0
