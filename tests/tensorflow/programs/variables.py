# SPDX-License-Identifier: Apache-2.0
"""Programs whose variables are most of what they need, and every way to write one.

python variables.py NAME OUTPUT.npz
"""

import re
import sys
import tempfile
from pathlib import Path

import data
import keras
import numpy as np
import tensorflow as tf
from keras import layers
from loops import cross_entropy

SHAPE = (200, 600)  # above the smallest size that leaves, in bytes too
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
DTYPES += ("uint16", "uint32", "uint64")
OTHERS = ("complex64", "complex128", "bool")


def _wide(optimizer="adam"):
    """Six weights of a megabyte, which with the optimizer's are eighteen."""
    hidden = [layers.Dense(512, "tanh") for _ in range(6)]
    model = keras.Sequential([keras.Input((512,)), *hidden, layers.Dense(data.CLASSES)])
    model.compile(optimizer, cross_entropy())
    return model


def _fit(model, epochs=2):
    x, y = data.classified(64, 512)
    return model.fit(x, y, batch_size=32, epochs=epochs, shuffle=False, verbose=0).history["loss"]


def wide():
    model = _wide()
    return _fit(model, 3), model.get_weights()


def wide_without_optimizer_state():
    model = _wide("sgd")
    return _fit(model, 3), model.get_weights()


def embedding():
    """Rows of tables of four megabytes that are read by gathers; their gradients are sparse."""
    generator = np.random.default_rng(3)
    shape = (4096, 256)
    tables = [tf.Variable(generator.standard_normal(shape, dtype=np.float32)) for _ in range(4)]
    rows = tf.constant([[1, 5, 5, 4000], [7, 1, 9, 9]])
    losses = []

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            found = [tf.gather(table, rows) for table in tables]
            loss = tf.reduce_mean(tf.square(tf.add_n(found) - 1.0))
        for table, gradient in zip(tables, tape.gradient(loss, tables), strict=True):
            table.scatter_sub(tf.IndexedSlices(0.5 * gradient.values, gradient.indices))
        return loss

    for _ in range(4):
        losses.append(float(step()))
        for table in tables:
            table.assign(table * 0.99)  # a table and its successor at once
    return losses, [table.numpy() for table in tables]


def constants():
    """Eight arrays of a megabyte in the graph, each used early and late."""
    generator = np.random.default_rng(4)
    shape = (512, 512)
    large = [generator.standard_normal(shape, dtype=np.float32) * 0.05 for _ in range(8)]
    weight = tf.Variable(tf.eye(shape[0]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            hidden = weight
            for array in large:
                hidden = tf.tanh(hidden @ tf.constant(array))
            loss = tf.reduce_mean(tf.square(hidden))
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    return [float(step()) for _ in range(4)], [weight.numpy()]


def successive():
    """Forty variables of a megabyte, of which one is there at a time."""
    sums = []
    for number in range(40):
        variable = tf.Variable(tf.fill((512, 512), float(number)))
        variable.assign_add(tf.ones((512, 512)))
        sums.append(float(tf.reduce_sum(variable)))
    return sums, []


def outcome(write):
    """What it gives, or the words with which it fails."""
    try:
        value = write()
    except (tf.errors.OpError, TypeError, ValueError) as error:
        words = re.sub(r"\{\{.*?\}\} *", "", str(error))  # not where, but what
        return np.array(f"{type(error).__name__}: {words[:100]}")
    if value is None:
        return np.array("done")
    return np.array(tf.cast(value, tf.float64) if value.dtype == tf.bfloat16 else value)


def _writes(variable, other):
    """One after the other; each is followed by what the variable holds then."""
    rows = tf.constant([3, 9, 3])
    some = other[:3]
    kept = variable.read_value()
    yield lambda: variable.assign(variable)
    yield lambda: variable.assign(other)
    yield lambda: variable.assign_add(other)
    yield lambda: variable.assign_sub(other)
    yield lambda: kept
    yield lambda: tf.gather(variable, rows)
    yield lambda: variable.scatter_update(tf.IndexedSlices(some, rows))
    yield lambda: variable.scatter_add(tf.IndexedSlices(some, rows))
    yield lambda: variable.scatter_nd_update([[0], [7]], some[:2])
    yield lambda: variable[5].assign(some[0])
    yield lambda: variable.assign(other)
    yield lambda: variable.assign_add(other)
    yield lambda: other.assign(variable)
    yield lambda: variable.assign(tf.zeros((3, 3), variable.dtype))
    yield lambda: tf.raw_ops.AssignVariableOp(
        resource=variable.handle, value=tf.zeros((3, 3), variable.dtype), validate_shape=True
    )
    yield lambda: tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.constant("text"))


def writes():
    generator = np.random.default_rng(5)
    arrays = []
    for dtype in DTYPES + OTHERS:
        values = [tf.cast(generator.integers(0, 100, SHAPE), dtype) for _ in range(2)]
        variable, other = map(tf.Variable, values)
        for write in _writes(variable, other):
            arrays += [outcome(write), outcome(variable.read_value)]
        # A variable whose shape is open.
        loose = tf.Variable(values[0], shape=tf.TensorShape(None))
        loose.assign(values[1][:150])
        loose.assign_add(values[1][:150]) if dtype in DTYPES else None
        arrays.append(outcome(loose.read_value))
        loose.assign(loose[:64])  # a part of its own memory
        arrays.append(outcome(loose.read_value))
        # A new one in the place of one that is gone.
        del variable
        arrays.append(outcome(tf.Variable(values[1]).read_value))
    return [0.0], arrays


def saved():
    """Checkpoints, both formats of Keras, get and set of weights, and training on from them."""
    with tempfile.TemporaryDirectory() as folder:
        model = _wide()
        losses = _fit(model)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        path = checkpoint.write(str(Path(folder, "checkpoint")))
        model.save_weights(Path(folder, "model.weights.h5"))
        model.save(Path(folder, "model.keras"))
        first = model.get_weights()
        losses += _fit(model)
        checkpoint.read(path).assert_consumed()
        arrays = model.get_weights()
        losses += _fit(model)
        model.load_weights(Path(folder, "model.weights.h5"))
        arrays += model.get_weights()
        model.set_weights([weight * 2 for weight in first])
        arrays += model.get_weights()
        again = keras.models.load_model(Path(folder, "model.keras"))
        losses += _fit(again)
        return losses, arrays + again.get_weights()


def written():
    """A checkpoint, read back a variable at a time: restoring allocates all at once."""
    with tempfile.TemporaryDirectory() as folder:
        model = _wide()
        losses = _fit(model)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        reader = tf.train.load_checkpoint(checkpoint.write(str(Path(folder, "checkpoint"))))
        names = sorted(name for name in reader.get_variable_to_shape_map() if "VALUE" in name)
        arrays = [reader.get_tensor(name).copy() for name in names]
        return losses + _fit(model), [array for array in arrays if array.nbytes > 1024]


def main(name, output):
    keras.utils.set_random_seed(0)
    losses, arrays = globals()[name]()
    np.savez(output, losses=losses, **{f"w{i}": array for i, array in enumerate(arrays)})


if __name__ == "__main__":
    main(*sys.argv[1:])
