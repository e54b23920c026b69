# SPDX-License-Identifier: Apache-2.0
"""Optimizers that update a few rows of a table."""

import keras
import numpy as np
import tensorflow as tf
from stored import Kept, require_more, stored_bytes
from tensorflow.python.framework import op_def_registry
from variables import outcome

ROWS, COLUMNS = 1000, 17  # of floats a little more than the smallest size that leaves
SHAPE = (ROWS, COLUMNS)
SIZE = 4 * ROWS * COLUMNS
# What the optimizers' ops call their inputs.
NUMBERS = {"lr": 0.1, "alpha": 0.1, "rho": 0.9, "momentum": 0.9, "epsilon": 1e-3}
NUMBERS |= {"l1": 0.01, "l2": 0.02, "l2_shrinkage": 0.01, "lr_power": -0.5}


def _normal(number, dtype="float32"):
    return tf.cast(np.random.default_rng(number).standard_normal(SHAPE), dtype)


def _sparse_applies():
    """The ops of sparse updates, and which of their inputs are variables, and which are not."""
    for name in sorted(dir(tf.raw_ops)):
        if not name.startswith("ResourceSparseApply"):
            continue
        inputs = op_def_registry.get(name).input_arg
        variables = [each.name for each in inputs if each.type == tf.resource.as_datatype_enum]
        yield getattr(tf.raw_ops, name), variables, {each.name for each in inputs} - {*variables}


def _apply(op, slots, others, indices, locking):
    dtype = next(iter(slots.values())).dtype
    given = {name: tf.constant(number, dtype) for name, number in NUMBERS.items()}
    given["grad"] = _normal(9, dtype)[:3]
    given["global_step"] = tf.constant(3, tf.int64)
    given["indices"] = tf.constant(indices, tf.int64 if locking else tf.int32)
    handles = {name: slot.handle for name, slot in slots.items()}
    op(**handles, **{name: given[name] for name in others}, use_locking=locking)


def applies():
    """Every op that an optimizer has for sparse gradients, each twice.

    Together the variables are more than the budget: each has left when its turn comes.
    """
    kept, calls = Kept(), []
    for dtype in ("float32", "float64"):
        for op, names, others in _sparse_applies():
            # Accumulators hold squares.
            slots = {name: kept.add(abs(_normal(i, dtype)) + 1) for i, name in enumerate(names)}
            calls.append((op, slots, others))
    for indices, locking in (([3, 900, 17], False), ([17, 999, 0], True)):
        for call in calls:
            _apply(*call, indices, locking)
    kept.require_all()
    return [0.0], [slot.numpy() for _, slots, _ in calls for slot in slots.values()]


def _first_optimizers(train):
    yield train.GradientDescentOptimizer(0.1)
    yield train.MomentumOptimizer(0.1, 0.9)
    yield train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    yield train.AdagradOptimizer(0.1)
    yield train.AdagradDAOptimizer(0.1, train.get_or_create_global_step())
    yield train.AdadeltaOptimizer(0.1)
    yield train.AdamOptimizer(0.1)
    yield train.FtrlOptimizer(0.1, l1_regularization_strength=0.01)
    yield train.ProximalAdagradOptimizer(0.1)
    yield train.ProximalGradientDescentOptimizer(0.1, l2_regularization_strength=0.01)
    yield train.RMSPropOptimizer(0.1, momentum=0.9)
    yield train.RMSPropOptimizer(0.1, momentum=0.9, centered=True)


def session():
    """A table for each of TensorFlow's first optimizers; rows come more than once."""
    kept, v1 = Kept(), tf.compat.v1
    with tf.Graph().as_default():
        rows = tf.constant([1, 5, 5, 900])
        losses, updates = [], []
        for number, optimizer in enumerate(_first_optimizers(v1.train)):
            start = v1.random_normal_initializer(seed=number)
            table = v1.get_variable(f"table{number}", SHAPE, initializer=start, use_resource=True)
            found = tf.nn.embedding_lookup(table, rows)
            losses.append(tf.reduce_mean(tf.square(found - 1.0)))
            updates.append(optimizer.minimize(losses[-1]))
        variables = v1.global_variables()
        large = [variable for variable in variables if variable.shape == SHAPE]
        assert len(large) > 2 * len(updates)
        with v1.Session() as running:
            arrays = [outcome(lambda: running.run(large[0]))]  # which has no value yet
            for variable in variables:
                before = stored_bytes()
                running.run(variable.initializer)
                if variable.shape == SHAPE:
                    require_more(before, SIZE)
            found = [running.run([losses, updates])[0] for _ in range(3)]
            arrays += [running.run(variable).copy() for variable in variables]
    kept.require_all()
    return found, arrays


def keras_optimizers():
    """Keras's optimizers with gradients of a few rows, of which one comes twice."""
    Kept()  # of the variables after it all are stored
    every = keras.optimizers
    optimizers = [every.SGD(0.1, momentum=0.9), every.SGD(0.1, momentum=0.9, nesterov=True)]
    optimizers += [every.Adam(0.1), every.Adam(0.1, amsgrad=True), every.Adagrad(0.1)]
    optimizers += [every.Ftrl(0.1), every.RMSprop(0.1), every.SGD(0.1)]
    tables = [keras.Variable(_normal(i)) for i in range(len(optimizers))]
    for optimizer, table in zip(optimizers, tables, strict=True):
        before = stored_bytes()
        optimizer.build([table])
        large = sum(variable.shape == SHAPE for variable in optimizer.variables)
        require_more(before, SIZE * large)
    rows = tf.constant([1, 5, 5, 900])

    @tf.function
    def step():
        losses = []
        for optimizer, table in zip(optimizers, tables, strict=True):
            with tf.GradientTape() as tape:
                losses.append(tf.reduce_mean(tf.square(tf.gather(table.value, rows) - 1.0)))
            gradient = tape.gradient(losses[-1], table.value)
            assert isinstance(gradient, tf.IndexedSlices)
            optimizer.apply([gradient], [table])
        return losses

    losses = np.array([step() for _ in range(3)])
    states = [variable for optimizer in optimizers for variable in optimizer.variables]
    return losses, [variable.numpy() for variable in tables + states]
