# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow tests have an environment of their own: elsewhere they are nobody's."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]


@pytest.fixture(scope="session")
def server():
    """Trains programs of the table, and keeps what several tests compare with."""
    from tests.tensorflow.runner import Server

    with Server() as running:
        yield running
