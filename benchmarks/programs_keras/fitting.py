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
    """Prints each epoch, which is one step, as it ends."""

    def __init__(self):
        super().__init__()
        self._begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        seconds = round(time.perf_counter() - self._begin, 6)
        print(json.dumps({"step": epoch, "seconds": seconds, "loss": logs["loss"]}), flush=True)
        self._begin = time.perf_counter()


def fit(model, optimizer, loss, x, y, steps):
    """Trains `steps` steps on one and the same batch."""
    model.compile(optimizer, loss)
    model.fit(
        x, y, batch_size=len(x), epochs=steps, shuffle=False, verbose=0, callbacks=[Told()]
    )  # fmt: skip
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
