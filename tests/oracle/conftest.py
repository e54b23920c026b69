# SPDX-License-Identifier: Apache-2.0
"""Selection (ORACLE=quick|full) and the schedule that all oracle tests share."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

SELECTION = os.environ.get("ORACLE", "quick")
if SELECTION not in ("quick", "full"):
    raise pytest.UsageError(f"ORACLE={SELECTION!r}: expected quick or full")


def pytest_collection_modifyitems(config, items):
    """A test may wait for its turn in the schedule; what limits time is each child's own limit."""
    if config.pluginmanager.hasplugin("timeout"):
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def product():
    """Fails, rather than skips, where Spillway is not installed: there would be nothing to test."""
    points = importlib.metadata.entry_points(group="torch.backends")
    if not any(point.name == "spillway" for point in points):
        pytest.fail(
            "Spillway is not installed for this interpreter, so managed runs would be unmanaged; "
            "run `pip install --no-build-isolation .` first"
        )


@pytest.fixture(scope="session")
def schedule(tmp_path_factory, product, request):
    """All processes of this session. What the selected tests need is submitted before they run."""
    from tests.oracle.schedule import Schedule

    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        one = Schedule(tmp_path_factory.mktemp("oracle"))
    else:
        folder = tmp_path_factory.getbasetemp().parent / "oracle"  # the same for all workers
        folder.mkdir(exist_ok=True)
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        one = Schedule(folder, int(worker.removeprefix("gw")), workers)
    modules = dict.fromkeys(item.module for item in request.session.items)
    for module in modules:
        if hasattr(module, "submit"):
            items = [item for item in request.session.items if item.module is module]
            module.submit(one, items)
    one.begin()
    yield one
    one.close()
