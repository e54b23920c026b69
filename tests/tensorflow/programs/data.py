# SPDX-License-Identifier: Apache-2.0
"""Data that the small programs train on: seeded, and the same in every run."""

import numpy as np

SEED = 1
CLASSES = 10
VOCABULARY = 96


def classified(count, *shape):
    """Normal numbers of `shape`, and a class for each."""
    generator = np.random.default_rng(SEED)
    x = generator.standard_normal((count, *shape), dtype=np.float32)
    return x, generator.integers(0, CLASSES, count)


def segmented(count, *shape):
    """Normal numbers of `shape` with one channel, and a class for each of them."""
    x, _ = classified(count, *shape, 1)
    return x, np.clip(np.floor(x[..., 0] * 2 + CLASSES / 2), 0, CLASSES - 1).astype(np.int32)


def reproduced(count, *shape):
    """Numbers between 0 and 1 of `shape`, which are also what is to come out."""
    x = 1 / (1 + np.exp(-classified(count, *shape)[0]))
    return x, x


def continued(count, length):
    """Rows of tokens, and each row from its second token on."""
    tokens = np.random.default_rng(SEED).integers(0, VOCABULARY, (count, length + 1))
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


def translated(count, length):
    """Rows of tokens with the rows that are known of their translations, and what comes next."""
    source, target = continued(count, length)
    return [source, target], source[:, ::-1].copy()
