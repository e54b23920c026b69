# SPDX-License-Identifier: Apache-2.0
"""The README's lines give a working installation where there is a TensorFlow and no PyTorch."""

import json

import pytest

from tests.packaging.commands import run
from tests.packaging.fresh_environment import install, link, site_packages

# It waits for a build, which takes minutes where nothing has been built before.
pytestmark = pytest.mark.timeout(3000)

PROGRAM = """
import json, tensorflow as tf, spillway.tensorflow

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20):
            y = tf.tanh(y * 1.01)
        loss = tf.reduce_sum(y)
    return tape.gradient(loss, x)

for _ in range(6):
    step(tf.ones((1024, 1024)))
told = spillway.tensorflow.stats()
print(json.dumps({"file": spillway.__file__, **{name: told[name] for name in (
    "budget_bytes", "peak_device_bytes", "evicted_bytes", "plans")}}))
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return install(tmp_path_factory.mktemp("installed") / "environment", link)


def test_a_budget_manages_a_program(fresh):
    told = run(
        fresh, "-c", PROGRAM, SPILLWAY_BUDGET="48MiB", TF_CPP_MIN_LOG_LEVEL="2", PYTHONPATH=""
    )
    seen = json.loads(told.stdout)
    assert seen["file"].startswith(str(site_packages(fresh)))
    assert seen["budget_bytes"] == 48 * MIB
    assert seen["peak_device_bytes"] <= 48 * MIB
    assert seen["evicted_bytes"] > 48 * MIB
    assert seen["plans"] > 0


def test_the_installation_is_for_tensorflow_alone(fresh):
    installed = {path.name for path in (site_packages(fresh) / "spillway/lib").iterdir()}
    assert len(installed) == 1 and installed.pop().startswith("libspillway_tensorflow-")
    (loader,) = (site_packages(fresh) / "tensorflow-plugins").iterdir()
    assert loader.name == "libspillway_tensorflow_loader.so"
    run(fresh.parent / "spillway", "doctor", PYTHONPATH="")
