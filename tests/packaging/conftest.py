# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the packaging tests: the installed package, and an environment for pip."""

import fcntl
import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# They have environments of their own: elsewhere each is nobody's.
collect_ignore = [
    name
    for framework, names in {
        "tensorflow": ["test_tensorflow.py"],
        "torch": ["test_install.py", "test_library.py", "test_libtorch.py"],
    }.items()
    if importlib.util.find_spec(framework) is None
    for name in names
]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def torch_folder():
    """Found, not imported. Where there is no torch nothing here can run."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None, "the packaging tests need an interpreter with torch"
    return Path(spec.submodule_search_locations[0])


@pytest.fixture(scope="session")
def library():
    """The library that is installed for this interpreter."""
    spec = importlib.util.find_spec("spillway")
    assert spec is not None, "Spillway is not installed for this interpreter: install it first"
    (found,) = Path(spec.origin).parent.glob("lib/libspillway_torch-*.so")
    return found


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """The interpreter of a new environment with Spillway installed by pip, made once for all
    workers of pytest-xdist."""
    from tests.packaging.fresh_environment import borrow, install

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with open(folder / "fresh.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return install(folder / "fresh", borrow)
