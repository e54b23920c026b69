# SPDX-License-Identifier: Apache-2.0
"""Keras models of the public kinds, in miniature: hidden tensors are much, weights are little."""

import keras
from data import CLASSES, VOCABULARY
from keras import layers, ops


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


def resnet(blocks=(4, 4), width=16):
    """Blocks with a way around them; those of the second stage see half the size."""
    pictures = keras.Input((16, 16, 3))
    x = layers.Conv2D(width, 3, padding="same")(pictures)
    for stage, count in enumerate(blocks):
        filters = width << stage
        for number in range(count):
            stride = 2 if stage and number == 0 else 1
            short = x if stride == 1 else layers.Conv2D(filters, 1, stride)(x)
            for strides in (stride, 1):
                x = layers.Conv2D(filters, 3, strides, "same", use_bias=False)(
                    layers.ReLU()(layers.BatchNormalization()(x))
                )
            x = layers.Add()([x, short])
    return keras.Model(pictures, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


def unet(dimensions, edge, width=8, levels=2):
    """A class for each pixel or voxel, from a way down, a way up, and what goes across."""
    conv, pool, up, up_conv = {
        2: (layers.Conv2D, layers.MaxPooling2D, layers.UpSampling2D, layers.Conv2DTranspose),
        3: (layers.Conv3D, layers.MaxPooling3D, layers.UpSampling3D, layers.Conv3DTranspose),
    }[dimensions]

    def twice(x, filters):
        for _ in range(2):
            x = layers.ReLU()(layers.GroupNormalization(4)(conv(filters, 3, padding="same")(x)))
        return x

    pictures = keras.Input((*[edge] * dimensions, 1))
    x, across = pictures, []
    for level in range(levels):
        x = twice(x, width << level)
        across.append(x)
        x = pool(2)(x)
    x = twice(x, width << levels)
    for level in reversed(range(levels)):
        x = up(2)(x) if level else up_conv(width, 2, 2)(x)
        x = twice(layers.Concatenate()([across[level], x]), width << level)
    return keras.Model(pictures, conv(CLASSES, 1)(x))


def conv_lstm():
    return keras.Sequential(
        [
            keras.Input((6, 16, 16, 2)),
            layers.ConvLSTM2D(8, 3, padding="same", return_sequences=True, unroll=True),
            layers.ConvLSTM2D(8, 3, padding="same", unroll=True),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES),
        ]
    )


class Attention(layers.Layer):
    """A transformer's block: attention, then what `hidden` makes of each place."""

    def __init__(self, width, hidden, causal=False):
        super().__init__()
        self._attention = layers.MultiHeadAttention(4, width // 4, dropout=0.1)
        self._norms = [layers.LayerNormalization() for _ in range(2)]
        self._hidden, self._causal = hidden, causal

    def call(self, x, training=None):
        first = self._norms[0](x)
        x += self._attention(first, first, use_causal_mask=self._causal, training=training)
        return x + self._hidden(self._norms[1](x))


class Embedded(layers.Layer):
    """Tokens and their places as vectors."""

    def __init__(self, length, width):
        super().__init__()
        self._tokens = layers.Embedding(VOCABULARY, width)
        self._places = layers.Embedding(length, width)
        self._length = length

    def call(self, tokens):
        return self._tokens(tokens) + self._places(ops.arange(self._length))


def transformer(depth=3, length=32, width=64):
    tokens = keras.Input((length,), dtype="int32")
    x = Embedded(length, width)(tokens)
    for _ in range(depth):
        hidden = keras.Sequential([layers.Dense(4 * width, "gelu"), layers.Dense(width)])
        x = Attention(width, hidden, causal=True)(x)
    return keras.Model(tokens, layers.Dense(VOCABULARY)(layers.LayerNormalization()(x)))


class Experts(layers.Layer):
    """Gives each place to the two of so many dense networks that a gate likes best."""

    def __init__(self, count, width):
        super().__init__()
        self._gate = layers.Dense(count)
        self._experts = [
            keras.Sequential([layers.Dense(2 * width, "relu"), layers.Dense(width)])
            for _ in range(count)
        ]

    def call(self, x):
        scores = self._gate(x)
        best = ops.top_k(scores, 2)[0][..., -1:]
        weights = ops.softmax(ops.where(scores >= best, scores, -1e9))
        found = ops.stack([expert(x) for expert in self._experts], axis=-1)
        return ops.sum(found * weights[..., None, :], axis=-1)


def mixture_of_experts(depth=2, length=32, width=64):
    tokens = keras.Input((length,), dtype="int32")
    x = Embedded(length, width)(tokens)
    for _ in range(depth):
        x = Attention(width, Experts(4, width))(x)
    return keras.Model(tokens, layers.Dense(VOCABULARY)(x))


def translation(length=12, width=64):
    """Recurrent encoder and decoder with attention between them; both are loops of TensorFlow."""
    source, target = (keras.Input((length,), dtype="int32") for _ in range(2))
    read = layers.Bidirectional(layers.GRU(width, return_sequences=True))(
        layers.Embedding(VOCABULARY, width)(source)
    )
    written = layers.GRU(2 * width, return_sequences=True)(
        layers.Embedding(VOCABULARY, width)(target)
    )
    context = layers.Attention()([written, read])
    x = layers.Concatenate()([written, context])
    for _ in range(4):
        x = layers.Dense(2 * width, "tanh")(x)
    return keras.Model([source, target], layers.Dense(VOCABULARY)(x))


class Sampling(layers.Layer):
    """Draws from the normal distribution that mean and logarithm of the variance state."""

    def __init__(self):
        super().__init__()
        self._seed = keras.random.SeedGenerator(7)

    def call(self, mean, log_variance):
        from_normal = ops.mean(
            ops.sum(1 + log_variance - ops.square(mean) - ops.exp(log_variance), axis=-1)
        )
        self.add_loss(-0.5e-3 * from_normal)
        noise = keras.random.normal(ops.shape(mean), seed=self._seed)
        return mean + ops.exp(0.5 * log_variance) * noise


def vae(width=16):
    pictures = keras.Input((16, 16, 1))
    x = pictures
    for _ in range(2):
        x = layers.Conv2D(width, 3, 2, "same", activation="relu")(x)
        x = layers.Conv2D(width, 3, 1, "same", activation="relu")(x)
    x = layers.Flatten()(x)
    drawn = Sampling()(layers.Dense(8)(x), layers.Dense(8)(x))
    x = layers.Reshape((4, 4, width))(layers.Dense(4 * 4 * width, "relu")(drawn))
    for _ in range(2):
        x = layers.Conv2DTranspose(width, 3, 2, "same", activation="relu")(x)
        x = layers.Conv2D(width, 3, 1, "same", activation="relu")(x)
    return keras.Model(pictures, layers.Conv2D(1, 3, padding="same")(x))
