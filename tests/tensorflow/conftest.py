# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow tests have an environment of their own: elsewhere they are nobody's."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]
