# SPDX-License-Identifier: Apache-2.0
"""Code that the Keras scripts here share: options, the data, one line of JSON per step.

Each script is a program as anyone would write it: it knows nothing of Spillway. Data are synthetic
and fixed, weights random from a seed, so two runs print the same losses and the same hash.
"""

import argparse
import hashlib
import json
import time

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.eager.context import Context


def options(description, **sizes):
    """The parsed command line: --steps, one --NAME per size, and Grappler's memory optimizer."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--memory-optimization", choices=RewriterConfig.MemOptType.keys())
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    if chosen.memory_optimization:
        set_memory_optimization(chosen.memory_optimization)
    keras.utils.set_random_seed(0)
    return chosen


def set_memory_optimization(name):
    """Sets the option of RewriterConfig, for which TensorFlow has no function but in sessions."""
    stock = Context.config.fget

    def config(self):
        made = stock(self)
        rewriting = made.graph_options.rewrite_options
        rewriting.memory_optimization = RewriterConfig.MemOptType.Value(name)
        return made

    Context.config = property(config)


class Told(keras.callbacks.Callback):
    """Prints each step as it ends, with its loss."""

    def __init__(self):
        super().__init__()
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        seconds = round(time.perf_counter() - self._begin, 6)
        print(json.dumps({"step": batch, "seconds": seconds, "loss": logs["loss"]}), flush=True)
        self.model.reset_metrics()
        self._begin = time.perf_counter()


def fit(model, optimizer, loss, x, y, steps):
    """Trains `steps` steps on one and the same batch, in one epoch.

    Stock TensorFlow ends an epoch by waiting for the thread that tunes its input, which looks up
    1.3 or 2.6 s after the epoch began: with an epoch per step, that would be in every step's time.
    """
    model.compile(optimizer, loss)
    data = tf.data.Dataset.from_tensors((x, y)).repeat(steps)
    model.fit(data, verbose=0, callbacks=[Told()])
    print(json.dumps({"weights": digest(model.get_weights())}), flush=True)


def digest(arrays):
    """Returns the hash of all arrays, bit for bit."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).view(np.uint8))
    return found.hexdigest()


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def classes(count, *shape):
    return np.random.default_rng(1).integers(count, size=shape)
