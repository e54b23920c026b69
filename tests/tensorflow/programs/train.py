# SPDX-License-Identifier: Apache-2.0
"""Trains one of the small networks and writes losses and weights: an ordinary program.

python train.py PROGRAM OUTPUT.npz [EPOCHS]

EPOCHS of those that are one `fit`: other than in the table.
"""

import sys
from dataclasses import replace

import data
import keras
import loops
import models
import numpy as np
from table import PROGRAMS, Fit


def fit(row):
    keras.config.set_dtype_policy(row.policy)
    model = getattr(models, row.model)(*row.arguments)
    x, y = getattr(data, row.data)(*row.shape)
    loss = loops.cross_entropy() if row.loss == "cross_entropy" else row.loss
    model.compile(row.optimizer, loss, **row.options)
    history = model.fit(x, y, batch_size=row.batch, epochs=row.epochs, shuffle=False, verbose=0)
    return history.history["loss"], model.get_weights()


def main(name, output, epochs=None):
    keras.utils.set_random_seed(0)
    row = PROGRAMS[name]
    if epochs is not None:
        row = replace(row, epochs=int(epochs))
    losses, weights = fit(row) if isinstance(row, Fit) else getattr(loops, name)()
    np.savez(output, losses=losses, **{f"w{i}": w for i, w in enumerate(weights)})


if __name__ == "__main__":
    main(*sys.argv[1:])
