# SPDX-License-Identifier: Apache-2.0
"""The command, and the program without it."""

import importlib.metadata

import pytest

from tests.cli.conftest import find_command, terminal  # noqa: F401 - a fixture
from tests.run.launch import train


@pytest.fixture(scope="session")
def command():
    """Fails, rather than skips, where Spillway is not installed: nothing would be managed."""
    points = importlib.metadata.entry_points(group="torch.backends")
    if not any(point.name == "spillway" for point in points):
        pytest.fail("Spillway is not installed for this interpreter: install it first")
    found = find_command()
    assert found, "no spillway command: build it first, or name it in COMMAND_UNDER_TEST"
    return found


@pytest.fixture(scope="session")
def stock(tmp_path_factory):
    """The program without Spillway."""
    return train(tmp_path_factory.mktemp("stock") / "report").require_success()


@pytest.fixture(scope="session")
def peak(command, tmp_path_factory):
    """The most that its tensors hold."""
    recorded = train(
        tmp_path_factory.mktemp("record") / "report", command, "run", "--mode", "record", "--"
    )
    return recorded.require_success().last_count["peak_device_bytes"]
