# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing, non-reentrant: recomputed through saved-tensor hooks."""

from tests.oracle.programs import checkpoint_reentrant


def run(optimizer, size):
    return checkpoint_reentrant.run(optimizer, size, reentrant=False)
