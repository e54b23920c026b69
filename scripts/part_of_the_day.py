# SPDX-License-Identifier: Apache-2.0
"""Runs the sanitizer and the reader of files whose turn is today: `part_of_the_day.py [DAY]`.

Continuous integration has no time for all of `make sanitize` and `make fuzz`. Each day it builds
the C++ tests of one folder under one sanitizer and runs a share of them, and fuzzes one reader for
some seconds. DAY is a number, by default the date's; the same day has the same part.

Each part has a limit. One that takes longer, as with an empty compiler cache, is stopped and told
as NOT RUN, which is no failure: the cache keeps what was compiled. So is a missing clang.
"""

import datetime
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRESETS = ("asan-ubsan", "tsan")
READERS = ("trace", "plan", "machine")

# Folders with C++ tests, and into how many shares their tests are cut. A share takes some twenty
# seconds under a sanitizer, on two cores; without one, those of planning take two minutes.
SHARES = {
    "core": 1,
    "residency": 1,
    "planning": 30,
    "runtime": 10,
    "tests/support": 2,
    "tools": 4,
    "adapters/tensorflow": 3,
}
SANITIZER_SECONDS = 80
FUZZ_SECONDS = 10
FUZZER_SECONDS = 40  # with its build


def sanitizer_of(day):
    """The preset, the folder, its share, and how many shares there are."""
    rounds, turn = divmod(day, len(PRESETS) * len(SHARES))
    folder = list(SHARES)[turn // len(PRESETS)]
    return PRESETS[turn % len(PRESETS)], folder, rounds % SHARES[folder], SHARES[folder]


def reader_of(day):
    return READERS[day % len(READERS)]


def succeeds(what, seconds, command, **variables):
    """Returns False if the command fails. Reports one that does not end in time as no failure."""
    print(f"today: {what}", flush=True)
    # `timeout` ends what the command started, too.
    done = subprocess.run(
        ["timeout", str(seconds), *command], cwd=ROOT, env=os.environ | variables, check=False
    )
    if done.returncode == 124:
        print(f"NOT RUN: {what}: not done within {seconds} s", flush=True)
        return True
    return done.returncode == 0


def main():
    epoch = datetime.date(1970, 1, 1)
    today = (datetime.datetime.now(datetime.timezone.utc).date() - epoch).days
    day = int(sys.argv[1]) if len(sys.argv) > 1 else today
    preset, folder, share, shares = sanitizer_of(day)
    well = succeeds(
        f"C++ tests of {folder} under {preset}, part {share + 1} of {shares}",
        SANITIZER_SECONDS, ["scripts/sanitize.sh", preset],
        FOLDER=folder, GTEST_TOTAL_SHARDS=str(shares), GTEST_SHARD_INDEX=str(share),
    )  # fmt: skip
    what = f"{FUZZ_SECONDS} s of arbitrary bytes for the reader of a {reader_of(day)}"
    if shutil.which("clang++-14") or shutil.which("clang++"):
        command = ["scripts/fuzz.sh", reader_of(day)]
        well &= succeeds(what, FUZZER_SECONDS, command, FUZZ_SECONDS=str(FUZZ_SECONDS))
    else:
        print(f"NOT RUN: {what}: clang is not installed")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
