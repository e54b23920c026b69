# SPDX-License-Identifier: Apache-2.0
"""The scripts of benchmarks/ can be imported by name, as they import each other."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    """A package of the tests has the name of `report.py`, and is imported already where all tests
    are collected.
    """
    monkeypatch.setattr(sys, "path", [str(FOLDER), str(FOLDER / "programs"), *sys.path])
    monkeypatch.delitem(sys.modules, "report", raising=False)
