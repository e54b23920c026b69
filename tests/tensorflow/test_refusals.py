# SPDX-License-Identifier: Apache-2.0
"""Mistakes that end a program, with their words, and cases that are left alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "train.py"


def run(*words, cwd=None, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_what_cannot_fit_says_which_op_and_how_much(tmp_path):
    """The step fails while swap-ins wait, and the program ends instead of hanging."""
    # A weight of 1 MiB, its gradient and what RMSprop or Adam keeps of it are more than is left.
    done = run(PROGRAM, "mlp", tmp_path / "out.npz", SPILLWAY_BUDGET="4MiB")
    assert done.returncode == 1
    assert "ResourceExhaustedError" in done.stderr
    assert "spillway: a tensor does not fit into the budget: need" in done.stderr
    for word in ("need", "have", "of 4 MiB", "short", "Give a larger SPILLWAY_BUDGET"):
        assert word in done.stderr
    assert re.search(r"\[\[\{\{node [\w/]+\}\}\]\]", done.stderr), "TensorFlow names the op"
    held = re.search(
        r"Held: (\S+) (\w+) of variables in the store, (\S+) (\w+) of tensors that wait for a late "
        r"user, (\S+) (\w+) of rounding and other tensors",
        done.stderr,
    )
    assert held, done.stderr
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
    parts = zip(held.groups()[::2], held.groups()[1::2], strict=True)
    # They are read one after the other, while other ops go on.
    assert 2 << 20 < sum(float(number) * units[unit] for number, unit in parts) < 5 << 20


@pytest.mark.parametrize("variable", ["SPILLWAY_STATS", "SPILLWAY_TRACE"])
def test_a_file_that_cannot_be_written_is_refused_at_the_start(variable):
    path = {variable: "/no/such/folder/file.json"}
    done = run("-c", "import tensorflow; print('trained')", SPILLWAY_MODE="record", **path)
    assert done.returncode == 2
    assert f"spillway: error: {variable}" in done.stderr
    assert "trained" not in done.stdout


def test_an_op_may_be_given_several_variables_as_one_tensor(tmp_path):
    """The ops that are watched include one whose input is no single handle."""
    code = """
import tensorflow as tf
a, b = tf.Variable(tf.ones((256, 256))), tf.Variable(tf.zeros((256, 256)))
@tf.function
def step():
    stacked = tf.raw_ops.Pack(values=[a.handle, b.handle], axis=0)
    handles = tf.raw_ops.Unpack(value=stacked, num=2)
    with tf.GradientTape() as tape:
        y = tf.raw_ops.ReadVariableOp(resource=handles[0], dtype=tf.float32)
        y = tf.ensure_shape(y, (256, 256)) + a
        for _ in range(12):
            y = tf.tanh(y @ b)
    b.assign_sub(tape.gradient(y, b))
    return b
for _ in range(3):
    print(step().shape)
"""
    path = str(tmp_path / "step.json")
    done = run("-c", code, SPILLWAY_MODE="record", SPILLWAY_TRACE=path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("(256, 256)") == 3


def test_statistics_are_written_where_the_program_was_started(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = f"import os, tensorflow; os.chdir({str(elsewhere)!r})"
    done = run("-c", code, cwd=tmp_path, SPILLWAY_BUDGET="16MiB", SPILLWAY_STATS="told.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "told.json").read_text())["budget_bytes"] == 16 << 20
    assert not list(elsewhere.iterdir())


def test_statistics_that_are_not_written_are_a_failure(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"import shutil, tensorflow; shutil.rmtree({str(folder)!r}); print('trained')"
    done = run("-c", code, SPILLWAY_BUDGET="16MiB", SPILLWAY_STATS=str(folder / "statistics.json"))
    assert "trained" in done.stdout
    assert "spillway: the statistics were not written" in done.stderr
    assert done.returncode == 1


def test_an_array_that_does_not_fit_is_taken_beyond_the_budget(tmp_path):
    """What makes a tensor of it would copy into the null pointer that it gets for a refusal."""
    code = """
import numpy as np
import tensorflow as tf
print(tf.constant(np.ones((1024, 1024, 8), np.float32)).shape)
"""
    statistics = tmp_path / "statistics.json"
    done = run("-c", code, SPILLWAY_BUDGET="16MiB", SPILLWAY_STATS=str(statistics))
    assert done.returncode == 0, done.stderr
    assert "(1024, 1024, 8)" in done.stdout
    assert "spillway: a tensor does not fit into the budget: need 32 MiB" in done.stderr
    assert json.loads(statistics.read_text())["overshoot_bytes"] >= 16 << 20


@pytest.mark.parametrize("budget", ["1500KiB", "1900KiB"])
def test_a_kernel_that_does_not_look_ends_its_step_in_words(tmp_path, budget):
    """Memory is short for every op of this program, some of which do not look whether they got any:
    BiasAddGrad, whose workspace comes past OpKernelContext, and products by oneDNN. Which op meets
    it first differs from run to run."""
    done = run(PROGRAM, "custom_train_step", tmp_path / "out.npz", SPILLWAY_BUDGET=budget)
    assert done.returncode == 1, done.stderr
    assert "ResourceExhaustedError" in done.stderr


def test_what_fails_often_is_said_once():
    """As where a program looks for its largest batch; each error has its own figures."""
    code = """
import tensorflow as tf
for edge in (64, 65, 66):
    try:
        tf.zeros((1024, 1024, edge))
    except tf.errors.ResourceExhaustedError as error:
        print(error.message)
"""
    done = run("-c", code, SPILLWAY_BUDGET="100MiB")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("spillway: a tensor does not fit into the budget") == 1
    for needed in ("need 256 MiB", "need 260 MiB", "need 264 MiB"):
        assert done.stdout.count(needed) == 1


def test_an_eager_tensor_larger_than_the_budget(tmp_path):
    code = """
import tensorflow as tf
try:
    tf.zeros((1024, 1024, 64))
except tf.errors.ResourceExhaustedError as error:
    print(error.message)
print(float(tf.reduce_sum(tf.ones((1024, 1024)))))
"""
    done = run("-c", code, SPILLWAY_BUDGET="100MiB")
    assert done.returncode == 0, done.stderr
    assert "by allocator spillway (need 256 MiB, have" in done.stdout
    assert "1048576.0" in done.stdout


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SPILLWAY_BUDGET": "much"}, '"much" is not a budget'),
        ({"SPILLWAY_BUDGET": "4KiB"}, "SPILLWAY_BUDGET: 4 KiB is too little"),
        ({"SPILLWAY_BUDGT": "1GiB", "SPILLWAY_MODE": "fuzz"}, 'Did you mean "SPILLWAY_BUDGET"'),
        (
            {"SPILLWAY_BUDGET": "1GiB", "SPILLWAY_TRACE": "step.json"},
            'SPILLWAY_TRACE: "step.json" is written by SPILLWAY_MODE=record alone.',
        ),
        (
            {
                "SPILLWAY_BUDGET": "1GiB",
                "SPILLWAY_PLANNER": "none",
                "SPILLWAY_PLAN_CACHE": "plans",
            },
            "SPILLWAY_PLAN_CACHE: SPILLWAY_PLANNER=none makes no plans to keep.",
        ),
    ],
)
def test_a_wrong_setting_ends_the_program(variables, words):
    done = run("-c", "import tensorflow; print('went on')", **variables)
    assert done.returncode == 2
    assert words in done.stderr
    assert "went on" not in done.stdout


def test_without_a_variable_nothing_is_managed():
    code = "import tensorflow, spillway.tensorflow; print(spillway.tensorflow.stats())"
    done = run("-c", code)
    assert done.stdout.strip() == "None", done.stderr
    assert "spillway" not in done.stderr


def test_off_is_tensorflow_without_us():
    """Its own optimizers too, which the plugin changes, so that it is not even opened."""
    code = "import tensorflow; print('libspillway_tensorflow-' in open('/proc/self/maps').read())"
    assert run("-c", code, SPILLWAY_BUDGET="1GiB").stdout.strip() == "True"
    off = run("-c", code, SPILLWAY_BUDGET="1GiB", SPILLWAY_MODE="off")
    assert off.stdout.strip() == "False", off.stderr


def test_a_share_of_the_machine_is_divided_by_its_processes():
    code = """
import tensorflow as tf, spillway.tensorflow
print(spillway.tensorflow.stats()["budget_bytes"])
"""
    whole, half = (
        int(run("-c", code, SPILLWAY_BUDGET="40%", LOCAL_WORLD_SIZE=size).stdout)
        for size in ("1", "2")
    )
    assert abs(half - whole / 2) < 1 << 20


def test_a_tensorflow_without_a_plugin_goes_on_unmanaged(tmp_path):
    """As where TensorFlow was exchanged: the loader is there, and no plugin of that minor."""
    site = tmp_path / "site-packages"
    shutil.copytree(
        Path(sysconfig.get_path("platlib"), "tensorflow-plugins"), site / "tensorflow-plugins"
    )
    done = run(
        "-c", "import tensorflow; print('went on')", PYTHONPATH=str(site), SPILLWAY_BUDGET="1GiB"
    )
    assert done.returncode == 0, done.stderr
    assert "went on" in done.stdout
    assert "TensorFlow is not managed: this is TensorFlow 2.21" in done.stderr


def test_enable_before_the_first_tensor_and_not_after():
    code = """
import tensorflow as tf
import spillway.tensorflow as managed
managed.enable("100MiB")
tf.ones((1024, 1024))
print(managed.stats()["budget_bytes"], tf.config.experimental.get_memory_info("CPU:0")["peak"])
"""
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    budget, peak = map(int, done.stdout.split())
    assert budget == 100 << 20
    assert peak >= 4 << 20
    late = run("-c", code.replace("managed.enable", "tf.ones(3); managed.enable"))
    assert late.returncode == 1
    assert "before the first one" in late.stderr


def test_enable_says_what_is_wrong_and_changes_nothing():
    """In a notebook the process goes on, and may ask again."""
    code = """
import os
import tensorflow as tf
import spillway, spillway.tensorflow as managed
before = dict(os.environ)
for settings in ({"budget": "much"}, {"budget": "1GiB", "planner": "nobody"},
                 {"budget": "1GiB", "keep_ops": "aten::relu"},
                 {"mode": "record", "trace": "/nowhere/step.json"}):
    try:
        managed.enable(**settings)
    except spillway.UserError as error:
        print(error)
    assert dict(os.environ) == before and managed.stats() is None
managed.enable("100MiB")
tf.ones((1024, 1024))
print(managed.stats()["budget_bytes"])
"""
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    much, nobody, absent, nowhere, budget = done.stdout.splitlines()
    assert '"much" is not a budget' in much
    assert "nobody" in nobody
    assert "TensorFlow does not have SPILLWAY_KEEP_OPS yet" in absent
    assert "SPILLWAY_TRACE" in nowhere
    assert budget == str(100 << 20)


def test_enable_with_mode_off_enables_nothing():
    code = """
import tensorflow as tf, spillway.tensorflow as managed
managed.enable("100MiB", mode="off")
print(float(tf.reduce_sum(tf.ones((8, 8)))), managed.stats())
"""
    done = run("-c", code)
    assert done.stdout.strip() == "64.0 None", done.stderr


def test_a_forked_child_and_its_parent_go_on():
    code = """
import os
import numpy as np
import tensorflow as tf

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20):
            y = tf.tanh(y * 1.01)
        loss = tf.reduce_sum(y)
    return tape.gradient(loss, x)

x = tf.ones((512, 512))
first = step(x).numpy()
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(x.numpy(), np.ones((512, 512))) else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(step(x).numpy(), first)
print("equal")
"""
    done = run("-c", code, SPILLWAY_MODE="fuzz", SPILLWAY_BUDGET="400MiB")
    assert "equal" in done.stdout, done.stderr
