# SPDX-License-Identifier: Apache-2.0
"""Programs are told once what cannot be managed, and nothing of what can."""

import functools
import re
import subprocess
import sys

import pytest

from tests.tensorflow.runner import environment

COMPILED = "spillway: a function with jit_compile=True is compiled by XLA: nothing in it moves."
LOOP = "spillway: what a loop of TensorFlow keeps for its backward pass lies in lists"
TAPE = "spillway: what a gradient tape outside of every tf.function keeps for gradients stays"
EAGER = "spillway: a Keras model with run_eagerly=True has no graph"
SWITCHED_OFF = "spillway: TensorFlow's optimizers of graphs are switched off"

START = """
import numpy as np
import tensorflow as tf
x = tf.ones((64, 64))
weight = tf.Variable(tf.ones((64, 64)))
"""

# A loop without a gradient through it, and a tape in a function.
MANAGED = """
@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.tanh(x @ weight))
    total = 0.0
    for _ in tf.range(3):
        total += loss
    return total, tape.gradient(loss, weight)

step()
"""

# Twice each: said once.
PROGRAMS = {
    COMPILED: """
for scale in (1.0, 2.0):
    compiled = tf.function(lambda value: tf.tanh(value * scale), jit_compile=True)
    assert np.array_equal(compiled(x), np.full((64, 64), np.asarray(compiled(x))[0, 0]))
""",
    LOOP: """
def step():
    with tf.GradientTape() as tape:
        value = x
        for _ in tf.range(3):
            value = tf.tanh(value @ weight)
        loss = tf.reduce_sum(value)
    return tape.gradient(loss, weight)

for _ in range(2):
    tf.function(step)()
""",
    TAPE: """
layer = tf.function(lambda value: tf.tanh(value @ weight))
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(layer(x)))
    tape.gradient(loss, weight)
""",
    SWITCHED_OFF: """
for _ in range(2):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
""",
}


@pytest.fixture
def run(tmp_path):
    """Runs code as a file: TensorFlow reads the source of loops."""
    return functools.partial(_run, tmp_path / "program.py")


def _run(path, code, **variables):
    path.write_text(code)
    done = subprocess.run(
        [sys.executable, path], env=environment(**variables), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_it_is_said_once_and_of_nothing_else(run):
    mark = 'import sys\nprint("{}", file=sys.stderr, flush=True)\n'
    code = START + MANAGED
    for number, program in enumerate(PROGRAMS.values()):
        code += mark.format(f"program {number}") + program
    parts = re.split(r"program \d\n", run(code, SPILLWAY_BUDGET="1GiB").stderr)
    assert "spillway" not in parts[0]
    for words, said in zip(PROGRAMS, parts[1:], strict=True):
        assert said.count("spillway: ") == said.count(words) == 1


def test_a_tape_under_which_no_function_runs_is_told(run):
    code = (
        START
        + MANAGED
        + """
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.tanh(x @ weight))
    tape.gradient(loss, weight)
"""
    )
    said = run(code, SPILLWAY_BUDGET="1GiB").stderr
    assert said.count("spillway: ") == said.count(TAPE) == 1


SESSION = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
value, weight = tf.ones((64, 64)), tf.get_variable("weight", (64, 64))
{}
with tf.Session({}) as session:
    session.run(tf.global_variables_initializer())
    session.run(tf.gradients(value @ weight, weight))
"""


def test_a_session_that_switches_optimizers_off_is_told(run):
    said = {}
    for off in (True, False):
        config = (
            "config = tf.ConfigProto()\n"
            f"config.graph_options.rewrite_options.disable_meta_optimizer = {off}"
        )
        code = SESSION.format(config, "config=config")
        said[off] = run(code, SPILLWAY_BUDGET="1GiB").stderr
    assert said[True].count("spillway: ") == said[True].count(SWITCHED_OFF) == 1
    assert "spillway: " not in said[False]


def test_a_loop_of_v1_is_told(run):
    loop = (
        "value = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v @ weight)),"
        " (0, value))[1]"
    )
    said = run(SESSION.format(loop, ""), SPILLWAY_BUDGET="1GiB").stderr
    assert said.count("spillway: ") == said.count(LOOP) == 1


def test_a_keras_program_that_runs_eagerly_is_told(run):
    code = (
        START
        + """
import keras
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
model.fit(x, tf.ones((64, 1)), verbose=0)
"""
    )
    said = run(code, SPILLWAY_BUDGET="1GiB").stderr
    assert said.count("spillway: ") == said.count(EAGER) == 1


def test_nothing_is_said_of_the_tape_of_a_python_function(run):
    code = (
        START
        + """
@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.py_function(lambda y: tf.tanh(y), [x @ weight], tf.float32))
    return tape.gradient(loss, weight)

step()
"""
    )
    assert "spillway: " not in run(code, SPILLWAY_BUDGET="1GiB").stderr


def test_it_is_said_after_enable_too(run):
    start = 'import spillway.tensorflow\nspillway.tensorflow.enable("1GiB")\n'
    assert COMPILED in run(start + START + PROGRAMS[COMPILED]).stderr


ON_PROCESSORS = "--tf_xla_cpu_global_jit"


@pytest.mark.parametrize(
    ("flags", "jit", "said"),
    [
        (f"--tf_xla_auto_jit=2 {ON_PROCESSORS}", "False", True),
        (ON_PROCESSORS, "True", True),
        (f"--tf_xla_auto_jit=2 {ON_PROCESSORS}", "True", True),
        (f"--tf_xla_auto_jit=0 {ON_PROCESSORS}", "False", False),
        (f"--tf_xla_auto_jit=2 {ON_PROCESSORS}=false", "True", False),
        ("--tf_xla_auto_jit=2", "True", False),  # of a card
    ],
)
def test_clusters_are_told_where_there_are_any(run, flags, jit, said):
    code = START + f"tf.config.optimizer.set_jit({jit})\n" + MANAGED
    told = run(code, SPILLWAY_BUDGET="1GiB", TF_XLA_FLAGS=flags).stderr
    assert told.count("spillway: ") == told.count("spillway: XLA is asked") == said


@pytest.mark.parametrize("variables", [{}, {"SPILLWAY_MODE": "off"}])
def test_nothing_is_said_where_nothing_is_managed(run, variables):
    done = run(START + PROGRAMS[COMPILED], **variables)
    assert "spillway" not in done.stderr


@pytest.mark.parametrize(("budget", "compiles"), [(None, True), ("1GiB", False)])
def test_keras_does_not_compile_by_itself(run, budget, compiles):
    """It would where there is a card: TensorFlow is made to say that there is one."""
    code = """
import keras
import tensorflow as tf
from tensorflow.python.eager.context import PhysicalDevice

listed = tf.config.list_physical_devices()
tf.config.list_physical_devices = lambda kind=None: [
    device for device in [*listed, PhysicalDevice("/physical_device:GPU:0", "GPU")]
    if kind in (None, device.device_type)
]
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
print(model.jit_compile)
model.compile("sgd", "mse", jit_compile=True)
print(model.jit_compile)
"""
    done = run(code, **({"SPILLWAY_BUDGET": budget} if budget else {}))
    assert done.stdout.split() == [str(compiles), "True"]
