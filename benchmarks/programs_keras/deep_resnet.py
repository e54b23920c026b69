# SPDX-License-Identifier: Apache-2.0
"""A ResNet of bottleneck blocks on 32^2, batch 16, SGD, whose third stage is as deep as asked.

The other stages have 6, 32 and 6 blocks: as where SuperNeurons measured depth (Wang et al. 2018).
"""

import keras
from fitting import classes, fit, normal, options
from keras import layers

STAGES = (6, 32, None, 6)  # blocks; None: --blocks
EXPANSION = 4  # of the channels, by a block


def convolution(x, channels, kernel, stride=1):
    x = layers.Conv2D(channels, kernel, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def block(x, width, stride):
    y = layers.ReLU()(convolution(x, width, 1))
    y = layers.ReLU()(convolution(y, width, 3, stride))
    y = convolution(y, EXPANSION * width, 1)
    if stride != 1 or x.shape[-1] != EXPANSION * width:
        x = layers.Conv2D(EXPANSION * width, 1, stride, use_bias=False)(x)
    return layers.ReLU()(layers.Add()([x, y]))


def network(size, width, blocks):
    inputs = layers.Input((size, size, 3))
    x = layers.Conv2D(width, 3, padding="same", use_bias=False)(inputs)
    for stage, count in enumerate(STAGES):
        for number in range(blocks if count is None else count):
            x = block(x, width << stage, 2 if stage and not number else 1)
    x = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, x)


def main():
    chosen = options(__doc__, blocks=32, batch=16, width=8, size=32)
    fit(
        network(chosen.size, chosen.width, chosen.blocks),
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        normal(chosen.batch, chosen.size, chosen.size, 3), classes(10, chosen.batch),
        chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
