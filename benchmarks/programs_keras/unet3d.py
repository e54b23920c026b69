# SPDX-License-Identifier: Apache-2.0
"""A 3D U-Net, Adam: the memory is activations of few large layers."""

import keras
from fitting import classes, fit, normal, options
from keras import layers

LEVELS = 4


def double(x, channels):
    for _ in range(2):
        x = layers.Conv3D(channels, 3, padding="same")(x)
        x = layers.LeakyReLU(negative_slope=0.01)(layers.BatchNormalization()(x))
    return x


def network(size, width):
    inputs = x = layers.Input((size, size, size, 1))
    skips = []
    for level in range(LEVELS):
        x = double(x if level == 0 else layers.MaxPooling3D()(x), width << level)
        skips.append(x)
    skips.pop()
    for level in reversed(range(LEVELS - 1)):
        up = layers.Conv3DTranspose(width << level, 2, 2)(x)
        x = double(layers.Concatenate()([skips.pop(), up]), width << level)
    return keras.Model(inputs, layers.Conv3D(3, 1)(x))


def main():
    chosen = options(__doc__, size=96, batch=2, width=16)
    edges = (chosen.size,) * 3
    fit(
        network(chosen.size, chosen.width), keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        normal(chosen.batch, *edges, 1), classes(3, chosen.batch, *edges), chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
