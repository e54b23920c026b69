# SPDX-License-Identifier: Apache-2.0
"""Ops that write a part of a variable, and values that are held while they do."""

import gc
import threading

import numpy as np
import tensorflow as tf
from stored import Kept, variable_of
from variables import DTYPES, outcome

ROWS, COLUMNS = 1000, 70  # of bytes a little more than the smallest size that leaves
SHAPE = (ROWS, COLUMNS)
PATIENCE = 60  # seconds


def _normal(number, dtype="float32"):
    return tf.cast(np.random.default_rng(number).standard_normal(SHAPE), dtype)


def _scatters(variable, some):
    """One after the other, each of three rows. Sums of the integers do not depend on the order."""
    twice = tf.IndexedSlices(some, tf.constant([3, 90, 3]))
    once = tf.IndexedSlices(some, tf.constant([3, 90, 17]))
    places = tf.constant([[5], [120], [5]])
    for scatter in ("add", "sub", "min", "max", "mul"):
        yield lambda scatter=scatter: getattr(variable, f"scatter_{scatter}")(twice)
    for scatter in ("update", "div"):
        yield lambda scatter=scatter: getattr(variable, f"scatter_{scatter}")(once)
    for scatter in ("add", "sub", "min", "max"):
        yield lambda scatter=scatter: getattr(variable, f"scatter_nd_{scatter}")(places, some)
    yield lambda: variable.scatter_nd_update(places[:2], some[:2])
    yield lambda: variable.scatter_nd_update([[0, 1], [7, 2]], some[0, :2])
    columns = tf.tile([[4, 2]], (ROWS, 1))
    yield lambda: variable.batch_scatter_update(
        tf.IndexedSlices(tf.tile(some[:1, :2], (ROWS, 1)), columns)
    )
    yield lambda: variable[2:5].assign(some)
    yield lambda: variable[1:10:3].assign(some)
    yield lambda: variable[-1, 4:9].assign(some[0, :5])
    yield lambda: variable[..., 7].assign(tf.tile(some[0, :1], (ROWS,)))
    yield lambda: variable.scatter_update(tf.IndexedSlices(some, [0, 1, ROWS]))  # one too far
    yield lambda: variable[2:5].assign(some[:, 1:])
    yield lambda: variable.assign(variable[::-1])


def scatters():
    """Together the variables are more than the budget: each has left when its turn comes."""
    generator = np.random.default_rng(5)
    kept, writes, arrays = Kept(), [], []
    for dtype in DTYPES:
        variable = kept.add(tf.cast(generator.integers(0, 100, SHAPE), dtype))
        some = tf.cast(generator.integers(1, 4, (3, COLUMNS)), dtype)
        writes.append([(variable, write) for write in _scatters(variable, some)])
    for turn in zip(*writes, strict=True):
        for variable, write in turn:
            arrays += [outcome(write), outcome(variable.read_value)]
    kept.require_all()
    variable = kept.add(tf.cast(generator.integers(0, 100, SHAPE), tf.float32))

    @tf.function
    def together():
        """The bits of each state, in a sum: all of the states would not fit."""
        some, sums = tf.reshape(tf.range(1.0, 3 * COLUMNS + 1), (3, COLUMNS)), []
        for write in list(_scatters(variable, some))[:-3]:
            write()
            sums.append(tf.reduce_sum(tf.bitcast(variable.read_value(), tf.int32)))
        return sums

    arrays += [np.array(together()), variable.numpy()]
    return [0.0], arrays


def _while_held(variable, update):
    """What an op finds in a value that was read before and after an update in another thread."""
    began, updated = threading.Event(), threading.Event()

    def look(array):
        before = array.copy()
        began.set()
        assert updated.wait(PATIENCE)
        return np.stack([before, array])

    @tf.function
    def read():
        return tf.numpy_function(look, [variable.read_value()], variable.dtype)

    def write():
        assert began.wait(PATIENCE)
        update(variable)
        updated.set()

    other = threading.Thread(target=write)
    other.start()
    found = read().numpy()
    other.join()
    return found


def _updates(kept, some):
    rows = tf.constant([3, 90, 17])
    yield lambda variable: variable.scatter_update(tf.IndexedSlices(some[:3], rows))
    yield lambda variable: variable.scatter_nd_add(rows[:, None], some[:3])
    yield lambda variable: variable[1:4].assign(some[:3])
    accumulator = kept.add(tf.ones(SHAPE))
    yield lambda variable: tf.raw_ops.ResourceSparseApplyAdagradV2(
        var=variable.handle, accum=accumulator.handle, lr=0.1, epsilon=1e-3, grad=some[:3],
        indices=rows,
    )  # fmt: skip
    yield lambda variable: variable.assign_add(some)
    yield lambda variable: variable.assign(some + variable)

    def both(variable):
        variable.scatter_sub(tf.IndexedSlices(some[:3], rows))
        variable.assign(some)

    yield both


def held():
    """A value that was read stays what it was, in an op under way and in Python.

    The first sparse update makes a variable one of which readers get copies from then on.
    """
    kept, arrays = Kept(), []
    for update in _updates(kept, _normal(1)):
        gc.collect()  # the last one, which functions hold
        variable = variable_of(_normal(2))
        for _ in range(2):
            value = variable.read_value()
            arrays.append(_while_held(variable, update))
            assert (arrays[-1][0] == arrays[-1][1]).all()
            arrays += [value.numpy(), variable.numpy()]
            del value
            update(variable)  # nobody holds it
            arrays.append(variable.numpy())
    return [0.0], arrays
