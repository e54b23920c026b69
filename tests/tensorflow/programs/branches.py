# SPDX-License-Identifier: Apache-2.0
"""Each step is one of two branches, both of which train whole.

python branches.py NAME OUTPUT.npz

NAME: `first` or `second`: always that one; `both`: in turn.
"""

import sys

import data
import numpy as np
import tensorflow as tf

STEPS = 16
TAKES_FIRST = {
    "first": lambda _: True,
    "second": lambda _: False,
    "both": lambda step: step % 2 == 1,
}


def main(name, output):
    x, y = data.classified(512, 64)
    shapes = [(64, 256), *[(256, 256)] * 6, (256, data.CLASSES)]
    starts = np.random.default_rng(1)
    weights = [tf.Variable(starts.standard_normal(s).astype("float32") * 0.1) for s in shapes]

    def descend(activation, rate):
        with tf.GradientTape() as tape:
            hidden = tf.constant(x)
            for weight in weights:
                hidden = activation(hidden @ weight)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=hidden)
            )
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(rate * gradient)
        return loss

    @tf.function
    def step(takes_first):
        return tf.cond(
            takes_first, lambda: descend(tf.nn.tanh, 0.05), lambda: descend(tf.nn.relu, 0.02)
        )

    losses = [step(tf.constant(TAKES_FIRST[name](number))).numpy() for number in range(STEPS)]
    np.savez(output, losses=losses, **{f"w{i}": w.numpy() for i, w in enumerate(weights)})


if __name__ == "__main__":
    main(*sys.argv[1:])
