# SPDX-License-Identifier: Apache-2.0
"""Trains while something goes wrong, and writes losses and weights.

python disturbed.py NAME OUTPUT.npz
"""

import os
import signal
import sys

import data
import keras
import models
import numpy as np
import tensorflow as tf
from loops import cross_entropy

WIDTH, ROWS = 256, 1024


class Chain:
    """Many hidden tensors that wait for the backward pass, and little else."""

    def __init__(self, last=lambda x: x):
        generator = tf.random.Generator.from_seed(3)
        self.weights = [tf.Variable(generator.normal((WIDTH, WIDTH)) * 0.06) for _ in range(12)]
        self.x = generator.normal((ROWS, WIDTH))
        self.step = tf.function(self._step)
        self._last = last

    def _step(self, scale):
        with tf.GradientTape() as tape:
            hidden = self.x * scale
            for weight in self.weights:
                hidden = tf.tanh(hidden @ weight)
            loss = self._last(tf.reduce_mean(tf.square(hidden)))
        gradients = tape.gradient(loss, self.weights)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    def losses(self, steps):
        return [float(self.step(tf.constant(1.0))) for _ in range(steps)]


def failing_op():
    """An op of the backward pass fails in every other step, while swap-ins wait."""

    @tf.custom_gradient
    def last(loss):
        def gradient(upstream):
            finite = tf.debugging.check_numerics(loss, "as the test wants it")
            return upstream + 0.0 * finite

        return loss, gradient

    chain = Chain(last)
    losses = []
    for _ in range(4):
        losses += chain.losses(1)
        try:
            chain.step(tf.constant(np.nan))
        except tf.errors.InvalidArgumentError:
            continue
        raise AssertionError("the op did not fail")
    return losses, [weight.numpy() for weight in chain.weights]


def failing_python():
    """The same where the op is a Python function that raises."""
    turns = []

    def raises(loss):
        turns.append(loss)
        if len(turns) % 2 == 0:
            raise RuntimeError("as the test wants it")
        return loss

    chain = Chain(lambda loss: tf.py_function(raises, [loss], tf.float32))
    losses = []
    for _ in range(4):
        losses += chain.losses(1)
        try:
            chain.step(tf.constant(1.0))
        except tf.errors.OpError:
            continue
        raise AssertionError("the op did not fail")
    return losses, [weight.numpy() for weight in chain.weights]


def failing_callback():
    """A callback raises in mid-epoch; the program catches it and trains on."""

    class Raises(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                raise RuntimeError("as the test wants it")

    model = models.cnn()
    model.compile("sgd", cross_entropy())
    x, y = data.classified(200, 24, 24, 3)
    options = {"batch_size": 64, "epochs": 2, "shuffle": False, "verbose": 0}
    try:
        model.fit(x, y, callbacks=[Raises()], **options)
    except RuntimeError:
        losses = model.fit(x, y, **options).history["loss"]
    return losses, model.get_weights()


def interrupted():
    """Ctrl-C in mid-epoch, which the program catches; then it trains on."""

    class Interrupts(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                os.kill(os.getpid(), signal.SIGINT)

    model = models.cnn()
    model.compile("sgd", cross_entropy())
    x, y = data.classified(200, 24, 24, 3)
    options = {"batch_size": 64, "epochs": 2, "shuffle": False, "verbose": 0}
    try:
        model.fit(x, y, callbacks=[Interrupts()], **options)
    except KeyboardInterrupt:
        losses = model.fit(x, y, **options).history["loss"]
    return losses, model.get_weights()


def main(name, output):
    keras.utils.set_random_seed(0)
    losses, weights = globals()[name]()
    np.savez(output, losses=losses, **{f"w{i}": w for i, w in enumerate(weights)})


if __name__ == "__main__":
    main(*sys.argv[1:])
