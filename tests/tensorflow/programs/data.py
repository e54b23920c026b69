# SPDX-License-Identifier: Apache-2.0
"""What the small programs train on: seeded, and the same in every run."""

import numpy as np

SEED = 1
CLASSES = 10


def classified(count, *shape):
    """Normal numbers of `shape`, and a class for each."""
    generator = np.random.default_rng(SEED)
    x = generator.standard_normal((count, *shape), dtype=np.float32)
    return x, generator.integers(0, CLASSES, count)
