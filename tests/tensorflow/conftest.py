# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow tests have an environment of their own: elsewhere they are nobody's."""

import importlib.util
import os

import pytest

# TensorFlow takes oneDNN's kernels by itself where the processor has instructions for networks, and
# elsewhere others that need many times the workspace: of what a program fits into, that decides.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]


@pytest.fixture(scope="session")
def server():
    """Trains programs of the table, and keeps what several tests compare with."""
    from tests.tensorflow.runner import Server

    with Server() as running:
        yield running
