# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 of Keras, SGD: the memory is many middling activations."""

import keras
from fitting import classes, fit, normal, options


def main():
    chosen = options(__doc__, size=224, batch=32)
    model = keras.applications.ResNet50(
        weights=None, input_shape=(chosen.size, chosen.size, 3), classes=1000
    )
    fit(
        model, keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy",
        normal(chosen.batch, chosen.size, chosen.size, 3), classes(1000, chosen.batch),
        chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
