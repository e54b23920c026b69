# SPDX-License-Identifier: Apache-2.0
"""Trains one of a few small networks and writes losses and weights: an ordinary program.

python train.py PROGRAM OUTPUT.npz
"""

import sys

import keras
import numpy as np
import tensorflow as tf

LAYERS = keras.layers


def images(count, side, channels=3):
    generator = np.random.default_rng(1)
    x = generator.standard_normal((count, side, side, channels), dtype=np.float32)
    return x, generator.integers(0, 10, count)


def fit(model, x, y, batch, optimizer="adam", **options):
    model.compile(
        optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options
    )
    history = model.fit(x, y, batch_size=batch, epochs=3, shuffle=False, verbose=0)
    return history.history["loss"], model.get_weights()


def mlp():
    x, y = images(2048, 8)
    layers = [LAYERS.Flatten(), *(LAYERS.Dense(256, "tanh") for _ in range(10)), LAYERS.Dense(10)]
    return fit(keras.Sequential([keras.Input((8, 8, 3)), *layers]), x, y, 1024)


def cnn(**options):
    """With a last batch that is smaller than the others, so the batch is open in the graph."""
    x, y = images(200, 24)
    model = [keras.Input((24, 24, 3))]
    for _ in range(6):
        model += [LAYERS.Conv2D(16, 3, padding="same"), LAYERS.BatchNormalization()]
        model += [LAYERS.ReLU()]
    model += [LAYERS.Dropout(0.2), LAYERS.GlobalAveragePooling2D(), LAYERS.Dense(10)]
    return fit(keras.Sequential(model), x, y, 64, "sgd", **options)


def cnn_in_loop():
    """Three training steps in one call: the step lies in a loop, and in a branch within it."""
    return cnn(steps_per_execution=3)


def lstm():
    generator = np.random.default_rng(2)
    x = generator.standard_normal((256, 20, 32), dtype=np.float32)
    y = generator.integers(0, 10, 256)
    layers = [LAYERS.LSTM(64, unroll=True), LAYERS.Dense(10)]
    return fit(keras.Sequential([keras.Input((20, 32)), *layers]), x, y, 128, "rmsprop")


def dynamic_lstm():
    generator = np.random.default_rng(2)
    x = generator.standard_normal((256, 20, 32), dtype=np.float32)
    y = generator.integers(0, 10, 256)
    layers = [LAYERS.LSTM(64), *(LAYERS.Dense(128, "relu") for _ in range(6)), LAYERS.Dense(10)]
    return fit(keras.Sequential([keras.Input((20, 32)), *layers]), x, y, 128)


def custom_loop():
    """Plain tf.function and GradientTape, with a branch and a while loop in the step."""
    generator = tf.random.Generator.from_seed(3)
    weights = [tf.Variable(generator.normal((128, 128)) * 0.1) for _ in range(8)]
    x = generator.normal((512, 128))

    @tf.function
    def step(x, turn):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            if turn % 2 == 0:
                hidden = tf.exp(tf.sin(tf.tanh(hidden * 1.5) * hidden) + hidden)
            i = tf.constant(0)
            total = hidden
            while i < 3:
                total = tf.tanh(total + hidden @ weights[0])
                i += 1
            loss = tf.reduce_mean(tf.square(total))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    losses = [float(step(x, tf.constant(turn))) for turn in range(6)]
    return losses, [weight.numpy() for weight in weights]


PROGRAMS = {
    program.__name__: program
    for program in (mlp, cnn, cnn_in_loop, lstm, dynamic_lstm, custom_loop)
}


def main(program, output):
    tf.keras.utils.set_random_seed(0)
    losses, weights = PROGRAMS[program]()
    np.savez(output, losses=losses, **{f"w{i}": w for i, w in enumerate(weights)})


if __name__ == "__main__":
    main(*sys.argv[1:])
