# SPDX-License-Identifier: Apache-2.0
"""The command that the tables ask."""

import pytest

from tests.cli.conftest import find_command


@pytest.fixture(scope="session")
def command():
    found = find_command()
    assert found, "no spillway command: build it first, or name it in COMMAND_UNDER_TEST"
    return found
