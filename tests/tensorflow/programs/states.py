# SPDX-License-Identifier: Apache-2.0
"""What variables go through beside training: no value, values of other sizes, a broken disk."""

import numpy as np
import tensorflow as tf
from stored import Kept, require_more, stored_bytes, variable_of
from variables import SHAPE, outcome


def reshaped():
    """A variable whose shape is open goes through sizes: in the store, too small for it, empty."""
    Kept()  # of the variables after it all are stored
    generator, variables, arrays = np.random.default_rng(6), [], []

    def assign(variable, shape, before):
        variable.assign(generator.standard_normal(shape, dtype=np.float32))
        require_more(before, 4 * int(np.prod(shape)))
        arrays.extend([outcome(variable.read_value), outcome(lambda: variable[:2])])

    for shape in [(300, 600), (600, 200), (4, 200, 300), (20, 50), (5,), (), (0, 600)]:
        before = stored_bytes()
        variable = variable_of(tf.zeros(SHAPE), shape=tf.TensorShape(None))
        variables.append(variable)
        assign(variable, shape, before)
        if 0 in shape:
            continue  # it has no memory, and stays out of the store
        variable.assign(variable[-1:] if shape else 1.0)  # a part of its own memory
        arrays.append(variable.numpy())
        assign(variable, SHAPE, before)
        variable.assign_add(tf.ones(SHAPE))
        arrays.append(outcome(lambda v=variable: v.assign_add(tf.ones((3, 3)))))
        variable.scatter_update(tf.IndexedSlices(0.5, [1]))
        assign(variable, shape, before)
        held = variable.read_value()
        assign(variable, SHAPE, before)
        arrays.append(held.numpy())
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        values = [tf.fill(shape, 2.0) for shape in [SHAPE, (600, 200), (600, 300), (5,)]]
        first = v1.placeholder_with_default(values[0], None)
        loose = v1.Variable(first, validate_shape=False, use_resource=True)
        session.run(loose.initializer)
        for value in values[1:]:
            session.run(v1.assign(loose, value, validate_shape=False))
            arrays.append(session.run(loose).copy())
    return [0.0], arrays


def _uses(handle, rows):
    """Of a variable of floats."""
    raw, some = tf.raw_ops, tf.ones((2, SHAPE[1]))
    yield lambda: raw.VarIsInitializedOp(resource=handle)
    yield lambda: raw.VariableShape(input=handle)
    yield lambda: raw.ReadVariableOp(resource=handle, dtype=tf.float32)
    yield lambda: raw.ResourceGather(resource=handle, indices=rows, dtype=tf.float32)
    yield lambda: raw.ResourceGatherNd(resource=handle, indices=rows[:, None], dtype=tf.float32)
    yield lambda: raw.AssignAddVariableOp(resource=handle, value=tf.ones(SHAPE))
    yield lambda: raw.AssignSubVariableOp(resource=handle, value=tf.ones(SHAPE))
    yield lambda: raw.ResourceScatterMul(resource=handle, indices=rows, updates=some)
    yield lambda: raw.ResourceScatterNdUpdate(ref=handle, indices=rows[:, None], updates=some)
    yield lambda: raw.ResourceStridedSliceAssign(
        ref=handle, begin=[0], end=[2], strides=[1], value=some
    )
    yield lambda: raw.ResourceApplyGradientDescent(var=handle, alpha=0.5, delta=tf.ones(SHAPE))
    yield lambda: raw.ResourceSparseApplyMomentum(
        var=handle, accum=handle, lr=0.5, grad=some, indices=rows, momentum=0.5
    )


def uninitialized():
    """Everything that uses a variable: before it has a value, with one, and when it is gone."""
    kept, raw, arrays = Kept(), tf.raw_ops, []
    handle = raw.VarHandleOp(dtype=tf.float32, shape=SHAPE, shared_name="late")

    def look():
        arrays.extend([outcome(use) for use in _uses(handle, tf.constant([3, 9]))])

    for number in range(2):
        look()
        before = stored_bytes()
        raw.AssignVariableOp(resource=handle, value=tf.fill(SHAPE, float(number)))
        require_more(before, 4 * SHAPE[0] * SHAPE[1])
        look()
        held = raw.ReadVariableOp(resource=handle, dtype=tf.float32)
        raw.DestroyResourceOp(resource=handle)
        arrays.append(held.numpy())
        arrays.append(outcome(lambda: raw.DestroyResourceOp(resource=handle)))
    look()
    made = tf.function(lambda: raw.ReadVariableOp(resource=handle, dtype=tf.float32))
    arrays.append(outcome(made))
    kept.require_all()
    return [0.0], arrays


def half_written():
    """Numbers are assigned: how often that fails, and the least and the most then in the variable.

    It has 4 MiB, which are written aside in four parts.
    """
    variable = tf.Variable(tf.zeros((1 << 20,)))
    failures, extremes = 0, []
    for number in range(1, 4):
        try:
            variable.assign(tf.fill(variable.shape, float(number)))
        except tf.errors.ResourceExhaustedError:
            failures += 1
        values = variable.numpy()
        extremes.append([values.min(), values.max()])
    return [float(failures)], [np.array(extremes)]
