# SPDX-License-Identifier: Apache-2.0
"""Variables of a program that says itself whether they lie in the store."""

import os

import tensorflow as tf

import spillway.tensorflow

MANAGED = "SPILLWAY_BUDGET" in os.environ


def stored_bytes():
    """Of variables; None without Spillway."""
    return spillway.tensorflow.stats()["variable_bytes"] if MANAGED else None


def require_more(before, size):
    """So many bytes lie in the store beside those that lay there before."""
    assert not MANAGED or stored_bytes() - before == size, (before, size, stored_bytes())


def variable_of(value, **options):
    """A variable that lies in the store."""
    before = stored_bytes()
    variable = tf.Variable(value, **options)
    require_more(before, _size(value))
    return variable


def _size(value):
    return value.dtype.size * value.shape.num_elements()


class Kept:
    """Variables that are there until it is gone."""

    def __init__(self):
        self._variables = []
        self._bytes = 0
        self._before = stored_bytes()
        # More than the share of the budget that lies in memory: all that come then are stored.
        self.add(tf.zeros((1 << 18,)))

    def add(self, value):
        self._variables.append(variable_of(value))
        self._bytes += _size(value)
        return self._variables[-1]

    def require_all(self):
        """No update gave one of them memory of TensorFlow's."""
        require_more(self._before, self._bytes)
