# SPDX-License-Identifier: Apache-2.0
"""How much of the disk the transfers use: ratios to fio, alone and beside a training program.

fio and `transfer_driver` (built by scripts/bench.sh) take turns on the same disk with the same
pattern: direct I/O, 4 MiB a time, into space that was written before.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import disk_rate
from paired_runs import HERE, Spread, Worker, exit_on_signals, stock_environment
from program_choice import add_directory, add_page, page_to_write
from report import PAGE, ROOT, Report, table

DRIVER = ROOT / "build" / "bench" / "benchmarks" / "transfer_driver"
PATTERNS = {"write": "write", "read": "read", "mix": "randrw"}
METHODS = ("uring", "threads")
# Least shares of what fio reaches alone.
TARGETS = {("uring", "alone"): 0.9, ("threads", "alone"): 0.8, ("uring", "training"): 0.75}


@dataclass(frozen=True)
class Effort:
    rounds: int
    file: int  # MiB
    move: int  # MiB of one turn


FULL = Effort(rounds=5, file=1024, move=3072)
QUICK = Effort(rounds=3, file=1024, move=2048)
SMOKE = Effort(rounds=1, file=64, move=128)


@dataclass(frozen=True)
class Case:
    pattern: str
    small_pages: bool  # of the memory: 4 KiB, not 2 MiB

    def name(self):
        return self.pattern + ", pages of 4 KiB" * self.small_pages


@dataclass(frozen=True)
class Rate:
    """Bytes per second, and processor seconds for each GB."""

    rate: float
    cost: float


def run_fio(path, case, effort):
    """The rate, or nothing if fio fails."""
    job = disk_rate.fio_job(
        path, PATTERNS[case.pattern], effort.file << 20, "io_uring",
        f"--io_size={effort.move << 20}", "--randrepeat=1", "--norandommap", "--overwrite=1",
        pages=disk_rate.SMALL_PAGES if case.small_pages else disk_rate.HUGE_PAGES,
    )  # fmt: skip
    if not job:
        return None
    moved = sum(job[way]["io_bytes"] for way in ("read", "write"))
    seconds = job["job_runtime"] / 1000
    processor = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    return Rate(moved / seconds, processor / moved * 1e9)


def run_driver(arguments, method, case, effort):
    command = [
        arguments.driver, "--directory", arguments.directory, "--io", method,
        "--pattern", case.pattern, "--file", effort.file, "--move", effort.move,
        *["--small-pages"] * case.small_pages, *arguments.extra,
    ]  # fmt: skip
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{method}: {done.stderr.strip()}", file=sys.stderr)
        return None
    answer = json.loads(done.stdout)
    return Rate(answer["rate"], answer["processor_seconds"] / answer["bytes"] * 1e9)


@contextmanager
def beside(program):
    """A program that trains all the while, on all cores; or nothing."""
    if not program:
        yield
        return
    script = HERE / "programs" / f"{program}.py"
    worker = Worker(
        "train_example.py", script, "--steps", 1_000_000, environment=stock_environment()
    )
    with worker:
        worker.run(1, timeout=600)
        worker.begin("run", 1_000_000)
        yield
        worker.kill()


def measure(arguments, effort, training):
    """Rates by case and contestant, each a list with one entry for each round."""
    found = {(case, who): [] for case in arguments.cases for who in ("fio", *METHODS)}
    with tempfile.NamedTemporaryFile(dir=arguments.directory, prefix="spillway-bench-") as file:
        disk_rate.fio_job(file.name, "write", effort.file << 20, "io_uring")
        with beside(arguments.program if training else None):
            for _ in range(effort.rounds):
                for case in arguments.cases:
                    found[case, "fio"].append(run_fio(file.name, case, effort))
                    for method in METHODS:
                        found[case, method].append(run_driver(arguments, method, case, effort))
    return found


def rows_of(cases, found, alone, load):
    """Lines of the table; `alone` is what was found without a load."""
    rows = []
    for case in cases:
        fio, reference = found[case, "fio"], alone[case, "fio"]
        cells = [case.name(), load, cell(median(fio))]
        for method in METHODS:
            ours = found[case, method]
            if not median(ours) or not median(reference):
                cells += ["not available", ""]
                continue
            ratios = Spread.of([a.rate / b.rate for a, b in zip(ours, reference, strict=True)])
            target = TARGETS.get((method, load))
            missed = " **missed**" * bool(target and ratios.median < target)
            cells += [cell(median(ours)), ratios.text() + missed]
        rows.append(cells)
    return rows


def median(rates):
    if not rates or not all(rates):
        return None
    return Rate(statistics.median(r.rate for r in rates), statistics.median(r.cost for r in rates))


def cell(rate):
    return f"{rate.rate / 1e9:.2f} GB/s, {rate.cost:.2f} s" if rate else "not available"


HEAD = ("pattern", "beside", "fio", "io_uring", "to fio alone", "threads", "to fio alone")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--smoke", action="store_true", help="as short as possible")
    parser.add_argument("--alone", action="store_true", help="not beside a training program")
    parser.add_argument("--program", default="resnet50", help="of programs/, that trains meanwhile")
    parser.add_argument("--pattern", action="append", choices=PATTERNS, help="default: all")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--driver", type=Path, default=DRIVER)
    add_page(parser, PAGE)
    add_directory(parser, "the files")
    parser.add_argument("extra", nargs="*", help="after --: options of the driver")
    arguments = parser.parse_args()
    arguments.cases = [
        Case(pattern, small)
        for small in ((False,) if arguments.smoke else (False, True))
        for pattern in arguments.pattern or PATTERNS
    ]
    return arguments


def main():
    arguments = parse_arguments()
    exit_on_signals()
    for needed, there in (("fio", shutil.which("fio")), ("driver", arguments.driver.exists())):
        if not there:
            print(f"bench_disk: not run: no {needed} (scripts/bench.sh builds the driver)")
            return 0
    effort = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    if arguments.rounds:
        effort = Effort(arguments.rounds, effort.file, effort.move)
    mode = ["--quick"] * arguments.quick + ["--smoke"] * arguments.smoke
    command = " ".join(["benchmarks/bench_disk.py", *mode])
    report = Report(page_to_write(arguments), command, arguments.directory)
    begin = time.monotonic()
    alone = measure(arguments, effort, training=False)
    rows = rows_of(arguments.cases, alone, alone, "alone")
    if not arguments.smoke and not arguments.alone:
        busy = measure(arguments, effort, training=True)
        rows += rows_of(arguments.cases, busy, alone, "training")
    text = (
        f"Each cell: rate, and processor seconds of the program itself for each GB. fio: "
        f"io_uring, direct, 4 MiB, depth 8, its buffers in pages like ours, which are of 2 MiB "
        f"unless stated; `mix` is half reads, half writes. {effort.rounds} "
        f"rounds of {effort.move} MiB each, in turns, within {time.monotonic() - begin:.0f} s. "
        f"`training`: beside `benchmarks/programs/{arguments.program}.py` on all cores. Wanted: "
        f"io_uring 0.9 alone, 0.75 beside training, threads 0.8 alone; what is less says so."
    )
    report.add(
        "disk-rate", "How much of the disk do transfers use?", [text, "", *table(HEAD, *rows)]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
