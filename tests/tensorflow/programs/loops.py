# SPDX-License-Identifier: Apache-2.0
"""Programs that are more than one model and one `fit`. Each gives its losses and its weights."""

import data
import keras
import numpy as np
import tensorflow as tf
from keras import layers


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def custom_loop():
    """Plain tf.function and GradientTape, with a branch and a while loop in the step."""
    generator = tf.random.Generator.from_seed(3)
    weights = [tf.Variable(generator.normal((128, 128)) * 0.1) for _ in range(8)]
    x = generator.normal((4096, 128))

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


def gan():
    """Two networks and two optimizers, in one step."""
    noise_size, batch = 16, 96
    draw = keras.Sequential(
        [
            keras.Input((noise_size,)),
            layers.Dense(7 * 7 * 16),
            layers.Reshape((7, 7, 16)),
            layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
            layers.BatchNormalization(),
            layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
            layers.Conv2D(1, 3, padding="same", activation="tanh"),
        ]
    )
    judge = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 4, 2, "same"),
            layers.LeakyReLU(0.2),
            layers.Conv2D(32, 4, 2, "same"),
            layers.LeakyReLU(0.2),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    optimizers = [keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2)]
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(images, noise):
        with tf.GradientTape() as of_drawing, tf.GradientTape() as of_judging:
            drawn = draw(noise, training=True)
            real, false = judge(images, training=True), judge(drawn, training=True)
            drawing = entropy(tf.ones_like(false), false)
            judging = entropy(tf.ones_like(real), real) + entropy(tf.zeros_like(false), false)
        for tape, loss, network, optimizer in (
            (of_drawing, drawing, draw, optimizers[0]),
            (of_judging, judging, judge, optimizers[1]),
        ):
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply(gradients, network.trainable_variables)
        return drawing, judging

    images, _ = data.classified(batch * 3, 28, 28, 1)
    noise = data.classified(batch * 3, noise_size)[0]
    losses = []
    for begin in [*range(0, len(images), batch)] * 2:
        part = slice(begin, begin + batch)
        losses += [float(loss) for loss in step(np.tanh(images[part]), noise[part])]
    return losses, draw.get_weights() + judge.get_weights()
