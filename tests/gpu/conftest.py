# SPDX-License-Identifier: Apache-2.0
"""The command."""

from tests.cli.conftest import command  # noqa: F401 - a fixture
