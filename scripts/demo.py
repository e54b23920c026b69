# SPDX-License-Identifier: Apache-2.0
"""Trains an example in several ways and shows the runs side by side.

1. observed: a few steps under SPILLWAY_MODE=record, which evicts nothing and measures the peak and
   the floor;
2. stock: PyTorch alone, for the time, the losses and the weights to compare with;
3. Spillway: the same program under a budget of 30 % (text: 25 %) of the measured peak, or 1.15
   times the floor where that is more;
4. auto: the first steps again under SPILLWAY_BUDGET=cpu:auto, where all fits: what it gains in
   speed.

Exit status 1 if the weights or losses differ, the budget was exceeded, or a run failed.
"""

import argparse
import shutil
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
    check_share,
    comparison,
    end_on_sigterm,
    passed,
    show,
    summary,
    write_summary,
)
from rich.console import Console

DEMOS = {
    "brain": Demo("brain segmentation, 3D U-Net", "brain_segmentation", 40, 0.30, 8),
    "text": Demo("GPT on bytes, 24.3 M parameters", "byte_gpt", 150, 0.25, 30),
}


def keep_results(name, folder, out):
    """Copies what the managed run made to `out`, named after the demo."""
    kept = []
    for path in sorted((folder / "managed").glob("*.*")):
        if path.suffix in (".png", ".txt"):
            target = out / f"{name}-{path.name}"
            shutil.copyfile(path, target)
            kept.append(str(target))
    return kept


def measure(name, arguments, console):
    """The summary of one demo; raises RunError."""
    demo = DEMOS[name]
    steps = arguments.steps or demo.steps
    folder = arguments.out / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(demo, arguments, folder, console)
    console.rule(demo.title)

    stats = folder / "observed.json"
    environment = {"SPILLWAY_MODE": "record", "SPILLWAY_STATS": str(stats)}
    observed = trainer.run("observed", min(steps, arguments.observe_steps), (), environment, stats)
    share = arguments.share or demo.share
    budget = Budget(observed.stats["peak_device_bytes"], observed.stats["floor_bytes"], share)
    if not budget.peak:
        raise RunError("observed: the statistics show no tensor memory at all")
    for line in budget.lines():
        console.print(line, highlight=False)

    # Nothing of ours is even loaded into the run that the other one is compared with.
    stock = trainer.run("stock", steps, environment={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    stats = folder / "managed.json"
    prefix = [arguments.spillway, "run", "--budget", f"cpu:{budget.granted}", "--stats", str(stats)]
    prefix += ["--status", "off", "--summary", "off", "--"]
    managed = trainer.run("managed", steps, prefix, stats=stats)

    stats = folder / "auto.json"
    environment = {"SPILLWAY_BUDGET": "cpu:auto", "SPILLWAY_STATS": str(stats)}
    stop = min(steps, arguments.auto_steps or demo.auto_steps)
    auto = trainer.run("auto", steps, (), environment, stats, stop)

    rows = comparison(stock, managed, auto, budget)
    show(demo, rows, stop, console)
    for note in managed.notes:
        console.print(note, highlight=False, markup=False)
    kept = keep_results(name, folder, arguments.out)
    for path in kept:
        console.print(f"written {path}", highlight=False, markup=False)
    return summary((observed, stock, managed, auto), budget, rows, kept)


def find_spillway():
    beside = Path(sys.executable).parent / "spillway"
    return str(beside) if beside.exists() else shutil.which("spillway")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", nargs="?", choices=[*DEMOS, "all"], default="all")
    add_arguments(parser)
    parser.add_argument("--observe-steps", type=int, default=4, help="of the observed run")
    parser.add_argument("--size", type=int, help="of a crop or of the context")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo")
    parser.add_argument("--spillway", default=find_spillway(), help="the command to use")
    arguments = parser.parse_args()
    if not arguments.spillway:
        parser.error("no spillway command beside this Python or on PATH; see docs/demo.md")
    check_share(parser, arguments)
    return arguments


def main():
    end_on_sigterm()
    arguments = parse_arguments()
    console = Console(width=80)
    arguments.out.mkdir(parents=True, exist_ok=True)
    results, all_passed = {}, True
    for name in DEMOS if arguments.demo == "all" else (arguments.demo,):
        begin = time.monotonic()
        try:
            result = measure(name, arguments, console)
        except RunError as failure:
            console.print(f"{name}: {failure}", style="bold red", highlight=False, markup=False)
            all_passed = False
            continue
        took = time.monotonic() - begin
        results[name] = result | {"seconds_of_all_runs": took}
        console.print(f"all four runs took {took / 60:.1f} min", highlight=False)
        all_passed &= passed(result)
    write_summary(results, arguments.out, console)
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
