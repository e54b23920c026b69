# SPDX-License-Identifier: Apache-2.0
"""Called by torch at the end of ``import torch`` (entry point group ``torch.backends``).

Does nothing, and imports nothing, unless a ``SPILLWAY_*`` variable is set.
"""

import os


def activate() -> None:
    """Starts Spillway if the environment asks for it.

    A setting that cannot be honoured ends the process with status 2: training on without the limit
    that was asked for is what the limit is there to prevent. Failures of our own do the same unless
    ``SPILLWAY_STRICT=0``.
    """
    if not any(name.startswith("SPILLWAY_") for name in os.environ):
        return
    from spillway import _activation

    _activation.from_environment()
