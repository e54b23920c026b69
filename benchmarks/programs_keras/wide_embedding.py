# SPDX-License-Identifier: Apache-2.0
"""An embedding and wide layers, batch 8, Adam: 251 MiB of variables, and little besides.

After each step it prints what TensorFlow's allocator holds, where that tells.
"""

import json
import time

import keras
import tensorflow as tf
from fitting import classes, digest, options
from keras import layers

DEVICE = "CPU:0"


def allocated():
    """Bytes now, and the most since the last call; nothing where the allocator keeps no figures."""
    try:
        told = tf.config.experimental.get_memory_info(DEVICE)
        tf.config.experimental.reset_memory_stats(DEVICE)
    except ValueError:
        return {}
    return {"bytes": told["current"], "peak": told["peak"]}


def main():
    chosen = options(__doc__, batch=8, words=20000, width=256, length=8, layers=4, classes=10)
    model = keras.Sequential(
        [
            keras.Input((chosen.length,), dtype="int32"),
            layers.Embedding(chosen.words, chosen.width),
            layers.Flatten(),
            *[layers.Dense(chosen.width * chosen.length, "tanh") for _ in range(chosen.layers)],
            layers.Dense(chosen.classes),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)
    print(json.dumps({"built": allocated()}), flush=True)
    x = classes(chosen.words, chosen.batch, chosen.length)
    y = classes(chosen.classes, chosen.batch)
    for step in range(chosen.steps):
        begin = time.perf_counter()
        loss = float(model.train_on_batch(x, y))
        seconds = round(time.perf_counter() - begin, 6)
        print(
            json.dumps({"step": step, "seconds": seconds, "loss": loss} | allocated()), flush=True
        )
    print(json.dumps({"weights": digest(weight.numpy() for weight in model.weights)}), flush=True)


if __name__ == "__main__":
    main()
