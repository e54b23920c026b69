# SPDX-License-Identifier: Apache-2.0
"""A step that uses one weight many times over: its gradient is one sum of as many tensors.

python long_sum.py TIMES OUTPUT.npz
"""

import sys

import numpy as np
import tensorflow as tf

STEPS = 3


def main(times, output):
    generator = tf.random.Generator.from_seed(3)
    weight = tf.Variable(generator.normal((512, 512)) / 23)  # 1 MiB
    x = generator.normal((16, 512))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            hidden = x
            for _ in range(int(times)):
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    losses = [float(step()) for _ in range(STEPS)]
    np.savez(output, losses=losses, weight=weight.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
