# SPDX-License-Identifier: Apache-2.0
"""Train networks that do not fit in memory, without changing the training program.

    SPILLWAY_BUDGET=12GiB python train.py

or, from inside a program or notebook::

    import spillway
    spillway.enable(budget="12GiB")

Importing this package imports no framework and starts nothing.
"""

from spillway._native import UserError
from spillway._session import (
    Statistics,
    budget,
    disable,
    enable,
    keep,
    release,
    reset_peak,
    resident,
    stats,
)

__version__ = "0.1.0"

__all__ = [
    "RecordedStep",
    "Statistics",
    "UserError",
    "budget",
    "disable",
    "enable",
    "keep",
    "record_step",
    "release",
    "reset_peak",
    "resident",
    "stats",
    "without_memory",
]

_RECORDING = ("RecordedStep", "record_step", "without_memory")


def __getattr__(name: str) -> object:
    """Recording without memory is loaded when it is first asked for, since it imports torch."""
    if name not in _RECORDING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spillway import recording

    return getattr(recording, name)
