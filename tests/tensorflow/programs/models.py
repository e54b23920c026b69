# SPDX-License-Identifier: Apache-2.0
"""Keras models of the public kinds, in miniature: hidden tensors are much, weights are little."""

import keras
from data import CLASSES
from keras import layers


def mlp():
    hidden = [layers.Dense(256, "tanh") for _ in range(10)]
    return keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Flatten(), *hidden, layers.Dense(CLASSES)]
    )


def cnn(depth=16, width=8):
    model = [keras.Input((24, 24, 3))]
    for _ in range(depth):
        model += [layers.Conv2D(width, 3, padding="same"), layers.BatchNormalization()]
        model += [layers.ReLU()]
    model += [layers.Dropout(0.2), layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)]
    return keras.Sequential(model)


def lstm(unroll):
    hidden = [] if unroll else [layers.Dense(128, "relu") for _ in range(6)]
    return keras.Sequential(
        [keras.Input((20, 32)), layers.LSTM(64, unroll=unroll), *hidden, layers.Dense(CLASSES)]
    )
