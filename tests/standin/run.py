# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program with a CUDA that is none below PyTorch: see docs/testing.md.

python tests/standin/run.py PROGRAM.py [ARGUMENTS...]     # or -m MODULE
"""

import os
import pathlib
import sys

LIBRARIES = ["libstand_in_runtime.so", "libstand_in_nvml.so"]
VALUES = "libstand_in_values.so"


def _built(names):
    """Where this checkout's build has them; none where it lacks one."""
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = root / "build" / "environment.sh"
    if not environment.exists():
        return []
    lines = environment.read_text(encoding="utf-8").splitlines()
    builds = [line.partition("=")[2] for line in lines if line.startswith("spillway_build=")]
    found = [root / build / "tests" / "standin" / name for build in builds for name in names]
    return found if all(path.exists() for path in found) else []


def libraries():
    """The files to preload; none where this build has none."""
    return _built(LIBRARIES)


def values_library():
    """What true_values.py loads into PyTorch."""
    return _built([VALUES])[0]


def variables():
    """What a process needs in its environment to see the stand-in card. One thread for CUDA's
    absent kernels' sake: what the processor adds is then added in one order."""
    preloaded = [*map(str, libraries()), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return {
        "LD_PRELOAD": ":".join(preloaded),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "STAND_IN_CONTEXT_MIB": os.environ.get("STAND_IN_CONTEXT_MIB", "8"),
    }


def main():
    if not sys.argv[1:]:
        sys.exit(__doc__)
    if not libraries():
        sys.exit("This build has no stand-in for CUDA: PyTorch has to be a build for CUDA 13.")
    environment = os.environ | variables()
    environment.pop("CUDA_VISIBLE_DEVICES", None)  # tests/conftest.py hides real cards
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
