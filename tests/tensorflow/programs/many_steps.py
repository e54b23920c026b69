# SPDX-License-Identifier: Apache-2.0
"""A chain of twelve small layers, trained for as many steps as it is told.

python many_steps.py STEPS OUTPUT.npz
"""

import sys

import numpy as np
import tensorflow as tf

LAYERS, WIDTH, ROWS = 12, 64, 512


def main(steps, output):
    generator = tf.random.Generator.from_seed(3)
    weights = [tf.Variable(generator.normal((WIDTH, WIDTH)) * 0.06) for _ in range(LAYERS)]
    x = generator.normal((ROWS, WIDTH))  # 128 KiB

    @tf.function
    def step(scale):
        with tf.GradientTape() as tape:
            hidden = x * scale
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    losses = [float(step(tf.constant(1.0))) for _ in range(int(steps))]
    np.savez(output, losses=losses, **{str(i): w.numpy() for i, w in enumerate(weights)})


if __name__ == "__main__":
    main(*sys.argv[1:])
