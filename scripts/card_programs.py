# SPDX-License-Identifier: Apache-2.0
"""Runs random programs of a stand-in card: `card_programs.py FOLDER [PROGRAMS]`.

FOLDER holds the built tests. Each suite runs PROGRAMS (10,000) of them, JOBS (2)
processes at a time, a part in each; a part that fails is printed with its seeds, and the others
go on. What checks that missing waits are found is left out: `ctest -R programs` runs it.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

# Programs in one process: some ten seconds.
PARTS = {"stream_programs_test": 1_000, "engine_programs_test": 100}


def run_part(folder, suite, seed, count):
    """Returns what it printed of its programs, and all of it if it failed."""
    done = subprocess.run(
        [folder / suite, "--gtest_brief=1", "--gtest_filter=-*MissingWait*"],
        env=os.environ | {"PROGRAM_SEED": str(seed), "PROGRAMS": str(count)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if " programs, " in line]
    failure = done.stdout if done.returncode != 0 else None
    return " ".join(told), failure


def parts_of(programs):
    for suite, size in PARTS.items():
        for first in range(0, programs, size):
            yield suite, first + 1, min(size, programs - first)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    programs = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    parts = list(parts_of(programs))
    begin = time.monotonic()
    failed = []
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        running = {pool.submit(run_part, folder, *part): part for part in parts}
        for done, part in enumerate(concurrent.futures.as_completed(running), 1):
            suite, seed, count = running[part]
            told, failure = part.result()
            seconds = time.monotonic() - begin
            print(
                f"{done} of {len(parts)}, {seconds:.0f} s: {suite} from {seed}: {told}", flush=True
            )
            if failure is not None:
                failed.append(f"PROGRAM_SEED={seed} PROGRAMS={count} {folder / suite}")
                print(failure, flush=True)
    for command in failed:
        print(f"FAILED: {command}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
