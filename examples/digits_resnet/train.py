# SPDX-License-Identifier: Apache-2.0
"""Trains a residual network (Keras) to read the handwritten digits that scikit-learn carries.

Nothing is downloaded: 1,797 pictures of 8 x 8 pixels, of which every fifth is kept for the test.
"""

import argparse
import hashlib
from pathlib import Path

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

BATCH = 480
CLASSES = 10
# Blocks and filters of each stage; a stage after the first halves the pictures.
STAGES = ((16, 32), (6, 64))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30, help="training steps (default 30)")
    parser.add_argument("--stop", type=int, help="end after so many of them, without a test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=BATCH, help="pictures in a batch")
    parser.add_argument("--out", type=Path, default=Path("out/digits_resnet"))
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.size < 1:
        parser.error("--steps and --size must be at least 1")
    return arguments


def load():
    """Pictures [n, 8, 8, 1] from -1 to 1 and their digits, to train on and to test on."""
    digits = load_digits()
    pictures = (digits.images[..., None] / 8 - 1).astype(np.float32)
    kept = np.arange(len(pictures)) % 5 == 0
    return pictures[~kept], digits.target[~kept], pictures[kept], digits.target[kept]


def block(x, filters, strides):
    """Two convolutions and a way around them."""
    short = x
    if strides > 1:
        short = layers.Conv2D(filters, 1, strides, use_bias=False)(x)
        short = layers.BatchNormalization(momentum=0.8)(short)
    x = layers.Conv2D(filters, 3, strides, "same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization(momentum=0.8)(x))
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.8)(x)
    return layers.ReLU()(layers.Add()([x, short]))


def network():
    pictures = keras.Input((8, 8, 1))
    x = layers.Conv2D(STAGES[0][1], 3, padding="same")(pictures)
    for stage, (blocks, filters) in enumerate(STAGES):
        for number in range(blocks):
            x = block(x, filters, 2 if stage > 0 and number == 0 else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(pictures, layers.Dense(CLASSES)(x))


class Progress(keras.callbacks.Callback):
    """Prints each step's loss, and ends after `stop` steps."""

    def __init__(self, stop):
        super().__init__()
        self.stop, self.losses = stop, []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        print(f"step {len(self.losses)} loss {self.losses[-1]:.4f}", flush=True)
        if len(self.losses) == self.stop:
            self.model.stop_training = True


def fingerprint(model):
    """SHA-256 over paths, types, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for variable in model.weights:
        value = np.ascontiguousarray(variable.numpy())
        digest.update(f"{variable.path} {value.dtype} {value.shape}\n".encode())
        digest.update(value)
    return digest.hexdigest()


def main():
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    pictures, digits, unseen, their_digits = load()
    model = network()
    model.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    stop = min(arguments.steps, arguments.stop or arguments.steps)
    progress = Progress(stop)
    epochs = -(-stop * arguments.size // len(pictures)) + 1
    model.fit(
        pictures, digits, arguments.size, epochs, verbose=0, callbacks=[progress], shuffle=True
    )
    if not arguments.stop:
        _, right = model.evaluate(unseen, their_digits, arguments.size, verbose=0)
        arguments.out.mkdir(parents=True, exist_ok=True)
        model.save(arguments.out / "digits.keras")
        print(f"reads {right:.1%} of {len(unseen)} digits that it has not seen")
    print("losses", *(loss.hex() for loss in progress.losses))
    print("weights sha256", fingerprint(model))


if __name__ == "__main__":
    main()
