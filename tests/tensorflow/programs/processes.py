# SPDX-License-Identifier: Apache-2.0
"""Trains while other processes are forked and spawned, and writes losses and weights.

python processes.py NAME OUTPUT.npz
"""

import multiprocessing
import os
import sys
import threading
import time

import data
import keras
import models
import numpy as np
import tensorflow as tf
from loops import cross_entropy

import spillway.tensorflow


def small_cnn():
    model = models.cnn(8)
    model.compile("sgd", cross_entropy())
    return model


class Batches(keras.utils.PyDataset):
    def __init__(self, **options):
        super().__init__(**options)
        self._x, self._y = data.classified(256, 24, 24, 3)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        part = slice(index * 64, index * 64 + 64)
        return self._x[part] * 0.5, self._y[part]


def worker_processes():
    """Keras forks its workers while the step runs."""
    model = small_cnn()
    batches = Batches(workers=2, use_multiprocessing=True)
    losses = model.fit(batches, epochs=3, shuffle=False, verbose=0).history["loss"]
    return losses, model.get_weights()


def pipeline_threads():
    """A pipeline of tf.data with threads of its own, a cache and Python within."""
    x, y = data.classified(256, 24, 24, 3)

    def rows():
        yield from zip(x, y, strict=True)

    kinds = (tf.TensorSpec((24, 24, 3), tf.float32), tf.TensorSpec((), tf.int64))
    dataset = tf.data.Dataset.from_generator(rows, output_signature=kinds)
    dataset = dataset.cache().batch(64).map(lambda a, b: (a * 0.5, b), tf.data.AUTOTUNE)
    model = small_cnn()
    losses = model.fit(dataset.prefetch(2), epochs=3, shuffle=False, verbose=0).history["loss"]
    return losses, model.get_weights()


def halved(rows):
    return rows * 0.5


def pool():
    """A pool that is forked after the first epoch prepares what the others train on."""
    model = small_cnn()
    x, y = data.classified(256, 24, 24, 3)
    losses = model.fit(x, y, 64, 1, shuffle=False, verbose=0).history["loss"]
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for _ in range(2):
            again = np.concatenate(workers.map(halved, np.split(x, 4)))
            losses += model.fit(again, y, 64, 1, shuffle=False, verbose=0).history["loss"]
    return losses, model.get_weights()


def train_apart(output):
    keras.utils.set_random_seed(0)
    model = small_cnn()
    x, y = data.classified(192, 24, 24, 3)
    losses = model.fit(x, y, 64, 2, shuffle=False, verbose=0).history["loss"]
    output.put((losses, model.get_weights()))


def spawned():
    """A process of its own trains too, within a budget of its own."""
    context = multiprocessing.get_context("spawn")
    output = context.Queue()
    other = context.Process(target=train_apart, args=(output,))
    other.start()
    model = small_cnn()
    x, y = data.classified(256, 24, 24, 3)
    losses = model.fit(x, y, 64, 2, shuffle=False, verbose=0).history["loss"]
    more_losses, more_weights = output.get()
    other.join()
    return losses + more_losses, model.get_weights() + more_weights


def forked_often():
    """A thread forks all the time while steps run; each child asks for the statistics."""
    ended = threading.Event()

    def fork():
        while not ended.is_set():
            child = os.fork()
            if child == 0:
                spillway.tensorflow.stats()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            time.sleep(0.01)

    thread = threading.Thread(target=fork)
    thread.start()
    try:
        model = small_cnn()
        x, y = data.classified(256, 24, 24, 3)
        losses = model.fit(x, y, batch_size=64, epochs=8, shuffle=False, verbose=0)
    finally:
        ended.set()
        thread.join()
    return losses.history["loss"], model.get_weights()


def endless():
    """Trains until it is stopped from outside, and says how far it is."""

    class Tells(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            os.write(1, b"step\n")

    model = small_cnn()
    x, y = data.classified(256, 24, 24, 3)
    model.fit(x, y, 64, 1 << 20, shuffle=False, verbose=0, callbacks=[Tells()])


def main(name, output):
    keras.utils.set_random_seed(0)
    losses, weights = globals()[name]()
    np.savez(output, losses=losses, **{f"w{i}": w for i, w in enumerate(weights)})


if __name__ == "__main__":
    main(*sys.argv[1:])
