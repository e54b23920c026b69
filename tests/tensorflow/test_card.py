# SPDX-License-Identifier: Apache-2.0
"""A budget of a card where there is none: what is refused, and what Python does before a card is
there. The kernels have tests of their own (adapters/tensorflow/tests/card_swap_ops_test.cpp)."""

import os
import subprocess
import sys

import pytest

# A context that sees a card and makes no device.
SEES_A_CARD = """
import tensorflow as tf
from tensorflow.python.eager import context as contexts
from spillway import _card
from spillway._native import UserError

context = contexts.context()
context._initialize_physical_devices()
card = contexts.PhysicalDevice(name="/physical_device:GPU:0", device_type="GPU")
context._physical_devices.append(card)
context._visible_device_list.append(card)
context._memory_growth_map[card] = None
"""


def run(code, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )


def succeed(code, **variables):
    done = run(code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_a_tensorflow_for_processors_refuses_a_cards_budget():
    done = run("import tensorflow; print('went on')", SPILLWAY_BUDGET="cuda:8GiB")
    assert done.returncode == 2
    assert "went on" not in done.stdout
    for words in ("the budget is of a card", "tensorflow-cpu", "such as 8GiB"):
        assert words in done.stderr


def test_the_cards_limit_is_the_budget_in_whole_mib():
    lines = succeed(
        SEES_A_CARD
        + """
_card.limit(context, (3 << 20) + 5)
print([device.memory_limit for device in context.get_logical_device_configuration(card)])
print(context.config.gpu_options.experimental.virtual_devices[0].memory_limit_mb)
"""
    )
    assert lines[:2] == ["[3]", "[3.0]"]


def test_the_limit_holds_where_the_program_asks_for_memory_growth():
    lines = succeed(
        SEES_A_CARD
        + """
context.set_memory_growth(card, True)
_card.limit(context, 3 << 20)
print(context.config.gpu_options.experimental.virtual_devices[0].memory_limit_mb)
"""
    )
    assert lines[0] == "[3.0]"


@pytest.mark.parametrize(
    ("asked", "refused"), [("[2]", False), ("[2, 1]", False), ("[2, 2]", True)]
)
def test_a_limit_of_the_programs_own_may_be_lower(asked, refused):
    lines = succeed(
        SEES_A_CARD
        + f"""
own = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in {asked}]
context.set_logical_device_configuration(card, own)
try:
    _card.limit(context, 3 << 20)
    kept = context.get_logical_device_configuration(card)
    print("kept", [device.memory_limit for device in kept])
except UserError as error:
    print("refused", error)
"""
    )
    if refused:
        assert lines[0].startswith("refused the program lets TensorFlow hold 4 MiB on")
    else:
        assert lines[0] == f"kept {asked}"


def test_without_a_visible_card_the_first_op_fails_in_words():
    lines = succeed(
        """
import tensorflow as tf
import spillway.tensorflow
from spillway import _card
from tensorflow.python.eager import context as contexts

spillway.tensorflow.stats = lambda: {"budget_bytes": 8 << 20}
_card.before_the_first_device(contexts, _card._limit_to_budget)
for _ in range(2):
    try:
        tf.ones(3)
    except Exception as error:
        print(type(error).__name__, error)
"""
    )
    assert len(lines) == 3
    for line in lines[:2]:
        assert line.startswith("UserError SPILLWAY_BUDGET is of a card, and TensorFlow sees none")


@pytest.mark.parametrize(("budget", "told"), [("8GiB", 1), ("cpu:8GiB", 0), ("", 0)])
def test_who_has_a_card_and_names_no_device_is_told_what_has_no_limit(budget, told):
    lines = succeed(
        SEES_A_CARD
        + f"""
import contextlib
import io
import os
from tensorflow.python.platform import build_info

os.environ["SPILLWAY_BUDGET"] = {budget!r}
build_info.build_info["is_cuda_build"] = True
_card.watch_for_one()
said = io.StringIO()
with contextlib.redirect_stderr(said):
    for _ in range(2):
        try:
            tf.ones(3)
        except Exception:  # there is no such card
            pass
print(said.getvalue().count("the card's memory has no limit"))
"""
    )
    assert lines[0] == str(told)


# The default device stands for the card here, and a second processor for the host.
TRAINS = """
import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.ops import variable_v1, variables
from spillway import _card

processors = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    processors[0], [tf.config.LogicalDeviceConfiguration()] * 2)
if HOOKED:
    _card.HOST = "/device:CPU:1"
    _card.place_variables(variables)
    _card.place_variables(variable_v1)
    _card.place_variables_of_functions(polymorphic_function)
keras.utils.set_random_seed(7)
model = keras.Sequential([
    keras.layers.Input((16,)), keras.layers.Dense(32, activation="relu"),
    keras.layers.BatchNormalization(), keras.layers.Dropout(0.1), keras.layers.Dense(3)])
model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss="mse", jit_compile=False)
values = np.random.default_rng(3).normal(size=(64, 16)).astype("float32")
history = model.fit(values, values[:, :3], batch_size=16, epochs=2, verbose=0)
print([float(loss).hex() for loss in history.history["loss"]])
places = {v.value.device.split(":")[-1] for v in model.variables + model.optimizer.variables}
print(sorted(places))
with tf.device("/device:CPU:0"):
    print(tf.Variable(1.0).device.split(":")[-1])
print(tf.Variable(1.0).device.split(":")[-1])
print(tf.compat.v1.Variable(1.0).device.split(":")[-1])
made = []

@tf.function
def named():
    if not made:
        with tf.device("/device:CPU:0"):
            made.append(tf.Variable(2.0))
        made.append(tf.Variable(3.0))
    return made[0] + made[1]

print(float(named()), [variable.device.split(":")[-1] for variable in made])
"""


def test_variables_of_a_keras_program_are_made_on_the_host_and_compute_the_same():
    plain = succeed(TRAINS.replace("HOOKED", "False"))
    hooked = succeed(TRAINS.replace("HOOKED", "True"))
    assert hooked[0] == plain[0]
    assert plain[1] == "['0']"
    assert hooked[1] == "['1']"
    # A device that the program names is kept.
    assert plain[2:6] == ["0", "0", "0", "5.0 ['0', '0']"]
    assert hooked[2:6] == ["0", "1", "1", "5.0 ['0', '1']"]


def test_only_a_budget_that_names_a_card_is_one_of_a_card(monkeypatch):
    from spillway import _card

    asked = {}
    for text in ("cuda:8GiB", " cuda :8GiB", "8GiB", "cpu:8GiB", "cuda", ""):
        monkeypatch.setenv("SPILLWAY_BUDGET", text)
        asked[text] = _card.is_asked_for()
    assert [text for text, card in asked.items() if card] == ["cuda:8GiB", " cuda :8GiB"]
