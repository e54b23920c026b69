# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the fault tests: the process that starts their children."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def starter(tmp_path_factory):
    """Fails, rather than skips, where Spillway is not installed: nothing would be tested."""
    from tests.faults.starter import Starter

    points = importlib.metadata.entry_points(group="torch.backends")
    if not any(point.name == "spillway" for point in points):
        pytest.fail("Spillway is not installed for this interpreter: install it first")
    one = Starter(tmp_path_factory.mktemp("faults"))
    yield one
    one.close()
