# SPDX-License-Identifier: Apache-2.0
"""Runs the built `spillway` command, plainly or on a terminal of its own.

The command is taken from COMMAND_UNDER_TEST, else from build/release, else from
PATH. The first name is the better one to export: Spillway refuses SPILLWAY_ variables that are no
settings, in every program that loads it.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.cli.pseudo_terminal import PATIENCE, Terminal, clean_environment

ROOT = pathlib.Path(__file__).parent.parent.parent


def find_command():
    built = ROOT / "build" / "release" / "tools" / "spillway"
    return (
        os.environ.get("COMMAND_UNDER_TEST")
        or (str(built) if built.exists() else None)
        or shutil.which("spillway")
    )


@pytest.fixture(scope="session")
def command():
    found = find_command()
    assert found, "no spillway command: build it first, or name it in COMMAND_UNDER_TEST"
    return found


@pytest.fixture
def spillway(command):
    """Runs the command with pipes; returns the completed process."""

    def run(*words, stdin="", **changes):
        return subprocess.run(
            [command, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 3,
            env=clean_environment(changes),
        )

    return run


@pytest.fixture
def terminal(command):
    """Starts the command, or the words `first`, on a terminal; returns it running."""
    started = []

    def start(*words, first=None, rows=10, columns=80, stderr=None, **changes):
        line = [*(first or [command]), *words]
        started.append(Terminal(line, rows, columns, clean_environment(changes), stderr))
        return started[-1]

    yield start
    for one in started:
        one.close()
