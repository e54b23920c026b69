# SPDX-License-Identifier: Apache-2.0
"""The command, plainly or on a terminal."""

from tests.cli.conftest import command, terminal  # noqa: F401 - fixtures
