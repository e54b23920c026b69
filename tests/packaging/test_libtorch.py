# SPDX-License-Identifier: Apache-2.0
"""A C++ program built against what `cmake --install` provides computes the same under a budget."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.packaging.commands import ROOT, run

# Kept between runs: compiling against torch takes a quarter of a minute where nothing else runs.
FOLDER = ROOT / "build" / "libtorch"
MIB = 1 << 20


def build_folder():
    """Returns the folder where the command under test was built, with the adapter beside it."""
    command = Path(os.environ.get("COMMAND_UNDER_TEST", ROOT / "build/release/tools/spillway"))
    for folder in (command.parents[1], ROOT / "build" / "release"):
        if list(folder.glob("adapters/torch/libspillway_torch-*.so")):
            return folder
    return pytest.fail("build Spillway first, or set COMMAND_UNDER_TEST=BUILD/tools/spillway")


@pytest.fixture(scope="module")
def program(torch_folder):
    built = build_folder()
    prefix, build = FOLDER / built.name / "prefix", FOLDER / built.name / "build"
    run("cmake", "--install", built, "--prefix", prefix)
    run(
        "cmake", "-G", "Ninja", "-S", ROOT / "examples/libtorch", "-B", build,
        f"-DTORCH_FOLDER={torch_folder}", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}",
        "-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG",
    )  # fmt: skip
    run("cmake", "--build", build)
    return build / "train"


@pytest.fixture(scope="module")
def unmanaged(program):
    return run(program).stdout


def managed(program, folder, *options):
    """Returns the program's output and its statistics."""
    done = run(program, *options, "--stats", folder / "statistics.json")
    return done.stdout, json.loads((folder / "statistics.json").read_text(encoding="utf-8"))


def test_half_the_peak_is_enough(program, unmanaged, tmp_path):
    recorded, facts = managed(program, tmp_path, "--mode", "record")
    assert recorded == unmanaged
    peak = facts["peak_device_bytes"]
    assert peak >= 64 * MIB
    budget = peak // 2

    told, facts = managed(program, tmp_path, "--budget", budget)
    assert told == unmanaged
    assert facts["peak_device_bytes"] <= budget
    assert facts["overshoot_bytes"] == 0
    assert facts["evicted_bytes"] + facts["clean_evicted_bytes"] >= peak - budget
    assert facts["fetched_bytes"] > 0


def test_fuzz_changes_nothing(program, unmanaged, tmp_path):
    told, facts = managed(program, tmp_path, "--mode", "fuzz", "--min_size", 1)
    assert told == unmanaged
    assert facts["evictions"] > 100


def test_what_it_prints(unmanaged):
    *losses, weights = unmanaged.splitlines()
    values = [float.fromhex(line.removeprefix("loss ")) for line in losses]
    assert len(values) == 4
    assert values == sorted(values, reverse=True)
    assert len(weights.removeprefix("weights ")) == 16


def test_a_misspelt_option_stops_it(program):
    refused = run(program, "--bugdet", "1GiB", status=2)
    assert 'Did you mean "SPILLWAY_BUDGET"?' in refused.stderr
    assert refused.stdout == ""
