# SPDX-License-Identifier: Apache-2.0
"""A transformer with a mixture of experts, batch 8: the memory is weights and the state of Adam."""

import keras
from fitting import classes, fit, options
from keras import layers


def experts(x, width, count):
    """A mixture by the gate's weights: each expert sees each token."""
    gate = layers.Dense(count, use_bias=False, activation="softmax")(x)
    mixed = []
    for number in range(count):
        y = layers.Dense(width)(layers.Dense(4 * width, activation="relu")(x))
        mixed.append(layers.Multiply()([y, gate[..., number : number + 1]]))
    return layers.Add()(mixed) if count > 1 else mixed[0]


def block(x, width, heads, count):
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
    return layers.Add()([x, experts(layers.LayerNormalization()(x), width, count)])


def main():
    chosen = options(
        __doc__, experts=12, batch=8, width=256, heads=8, layers=2, size=32, vocabulary=1024
    )
    inputs = layers.Input((chosen.size,), dtype="int32")
    x = layers.Embedding(chosen.vocabulary, chosen.width)(inputs)
    for _ in range(chosen.layers):
        x = block(x, chosen.width, chosen.heads, chosen.experts)
    tokens = classes(chosen.vocabulary, chosen.batch, chosen.size + 1)
    fit(
        keras.Model(inputs, layers.Dense(chosen.vocabulary)(x)), keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        tokens[:, :-1], tokens[:, 1:], chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
