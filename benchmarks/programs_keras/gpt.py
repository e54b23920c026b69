# SPDX-License-Identifier: Apache-2.0
"""A decoder-only transformer in a tf.function, Adam: long sequences, quadratic attention scores."""

import json
import time

import keras
import numpy as np
import tensorflow as tf
from fitting import classes, digest, options


def weights_of(shapes):
    """One variable per shape: matrices random from the seed, vectors (of a norm) all ones."""
    random = np.random.default_rng(0)
    return [
        tf.Variable(
            random.standard_normal(shape, np.float32) * 0.02
            if len(shape) > 1
            else np.ones(shape, np.float32)
        )
        for shape in shapes
    ]


def norm(x, gain):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * gain


def block_of(heads):
    """Returns a block as a function of its input and its weights."""

    def block(x, first_gain, qkv, out, second_gain, up, down):
        batch, size, width = x.shape
        mixed = tf.reshape(norm(x, first_gain) @ qkv, (batch, size, 3, heads, width // heads))
        query, key, value = tf.unstack(tf.transpose(mixed, (2, 0, 3, 1, 4)))
        scores = query @ tf.transpose(key, (0, 1, 3, 2)) * (width // heads) ** -0.5
        future = 1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)
        seen = tf.nn.softmax(scores - 1e9 * future) @ value
        x += tf.reshape(tf.transpose(seen, (0, 2, 1, 3)), (batch, size, width)) @ out
        return x + tf.nn.gelu(norm(x, second_gain) @ up) @ down

    return block


def main():
    chosen = options(
        __doc__, batch=4, size=256, width=256, heads=8, layers=6, vocabulary=1024, recompute=0
    )
    width = chosen.width
    shapes = [(width,), (width, 3 * width), (width, width), (width,), (width, 4 * width)]
    shapes.append((4 * width, width))
    blocks = [weights_of(shapes) for _ in range(chosen.layers)]
    table, head = weights_of([(chosen.vocabulary, width), (width, chosen.vocabulary)])
    every = [table, *(weight for own in blocks for weight in own), head]
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(every)
    block = block_of(chosen.heads)
    if chosen.recompute:
        block = tf.recompute_grad(block)

    @tf.function
    def step(tokens, targets):
        with tf.GradientTape() as tape:
            x = tf.gather(table, tokens)
            for own in blocks:
                x = block(x, *(tf.convert_to_tensor(weight) for weight in own))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, x @ head)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, every), every)
        return loss

    tokens = tf.constant(classes(chosen.vocabulary, chosen.batch, chosen.size + 1))
    for number in range(chosen.steps):
        begin = time.perf_counter()
        loss = float(step(tokens[:, :-1], tokens[:, 1:]))
        seconds = round(time.perf_counter() - begin, 6)
        print(json.dumps({"step": number, "seconds": seconds, "loss": loss}), flush=True)
    print(json.dumps({"weights": digest(weight.numpy() for weight in every)}), flush=True)


if __name__ == "__main__":
    main()
