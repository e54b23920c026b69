# SPDX-License-Identifier: Apache-2.0
"""A recurrent network unrolled over a sequence, batch 64, SGD: the memory grows with its length."""

import keras
from fitting import classes, fit, normal, options
from keras import layers


def main():
    chosen = options(__doc__, size=50, batch=64, width=512, inputs=64, classes=32)
    model = keras.Sequential(
        [
            layers.Input((chosen.size, chosen.inputs)),
            layers.LSTM(chosen.width, return_sequences=True, unroll=True),
            layers.Dense(chosen.classes),
        ]
    )
    fit(
        model, keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        normal(chosen.batch, chosen.size, chosen.inputs),
        classes(chosen.classes, chosen.batch, chosen.size), chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
