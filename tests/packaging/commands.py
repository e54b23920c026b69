# SPDX-License-Identifier: Apache-2.0
"""Running commands in an environment that does not switch Spillway on."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def clean_environment():
    """Without what would switch Spillway on, and with the means to compile only once.

    What `make` built and what pip builds differ in the folder and in the compiler's name (that of
    Python's own build): with these ccache takes one for the other.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPILLWAY_")}
    env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", os.environ.get("JOBS", "2"))
    env.setdefault("CXX", "c++")
    env.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
    env.setdefault("CCACHE_BASEDIR", str(ROOT))
    env.setdefault("CCACHE_NOHASHDIR", "1")
    return env


def run(*words, status=0, **variables):
    """The finished command; its output is part of any failure."""
    done = subprocess.run(
        [str(word) for word in words],
        env=clean_environment() | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    told = f"{words} ended with {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    assert done.returncode == status, told
    return done
