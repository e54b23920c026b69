# SPDX-License-Identifier: Apache-2.0
"""The README's lines give a working installation where there is a TensorFlow and no PyTorch."""

import json
import os

import pytest

from tests.packaging.commands import ROOT, run
from tests.packaging.fresh_environment import install, link, site_packages

# It waits for a build, which takes minutes where nothing has been built before.
pytestmark = pytest.mark.timeout(3000)

MIB = 1 << 20


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return install(tmp_path_factory.mktemp("installed") / "environment", link)


def test_a_budget_manages_a_program(fresh, tmp_path):
    told = run(fresh, "-c", "import spillway; print(spillway.__file__)", PYTHONPATH="")
    assert told.stdout.startswith(str(site_packages(fresh)))
    statistics = tmp_path / "statistics.json"
    program = ROOT / "tests/tensorflow/programs/train.py"
    run(
        fresh, program, "mlp", tmp_path / "result.npz", PYTHONPATH="", TF_CPP_MIN_LOG_LEVEL="2",
        SPILLWAY_BUDGET="16MiB", SPILLWAY_STATS=str(statistics),
    )  # fmt: skip
    seen = json.loads(statistics.read_text())
    assert seen["budget_bytes"] == 16 * MIB
    assert seen["peak_device_bytes"] <= 16 * MIB
    assert seen["evicted_bytes"] > 48 * MIB
    assert seen["plans"] > 0


def test_the_installation_is_for_tensorflow_alone(fresh):
    installed = {path.name for path in (site_packages(fresh) / "spillway/lib").iterdir()}
    assert len(installed) == 1 and installed.pop().startswith("libspillway_tensorflow-")
    (loader,) = (site_packages(fresh) / "tensorflow-plugins").iterdir()
    assert loader.name == "libspillway_tensorflow_loader.so"
    # In the activated environment: it looks at the Python that a program is started with.
    run("spillway", "doctor", PYTHONPATH="", PATH=f"{fresh.parent}:{os.environ['PATH']}")
