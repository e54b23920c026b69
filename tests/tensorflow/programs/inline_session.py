# SPDX-License-Identifier: Apache-2.0
"""A session of TensorFlow 1 that runs ops inline: in the thread in which they became ready.

python inline_session.py NAME OUTPUT.npz

NAME: `graph`: the step is the session's graph; `function`: it is one that the graph calls.
"""

import sys

import data
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def main(name, output):
    x, y = data.classified(512, 64)
    shapes = [(64, 256), *[(256, 256)] * 6, (256, data.CLASSES)]
    starts = np.random.default_rng(1)
    with tf.Graph().as_default():
        weights = [
            v1.get_variable(
                f"w{i}", initializer=starts.standard_normal(shape).astype("float32") * 0.1
            )
            for i, shape in enumerate(shapes)
        ]

        def gradients(*weights):
            hidden = tf.constant(x)
            for weight in weights:
                hidden = tf.nn.relu(hidden @ weight)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=hidden)
            )
            return [loss, *tf.gradients(loss, weights)]

        if name == "function":
            gradients = tf.function(gradients, experimental_attributes={"_noinline": True})
        loss, *slopes = gradients(*[weight.read_value() for weight in weights])
        train = [w.assign_sub(0.05 * slope) for w, slope in zip(weights, slopes, strict=True)]
        config = v1.ConfigProto(inter_op_parallelism_threads=-1)
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(8)]
            arrays = session.run(weights)
    np.savez(output, losses=losses, **{f"w{i}": array for i, array in enumerate(arrays)})


if __name__ == "__main__":
    main(*sys.argv[1:])
