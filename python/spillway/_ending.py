# SPDX-License-Identifier: Apache-2.0
"""Steps and the end of a program, as far as Python alone knows of them."""

import atexit
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from spillway import _native, _no_limit

_watching = False


def watch() -> None:
    """Counts the steps of optimizers, and tells why the program ends, once per process."""
    global _watching
    if _watching:
        return
    _watching = True
    # While the hook rests nobody else sees a step.
    register_optimizer_step_pre_hook(_note_step)
    atexit.register(_note_end)


def _note_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
    if not torch.compiler.is_compiling():
        _native.loaded().note_step()
        _no_limit.look(optimizer)


def _note_end() -> None:
    # The interpreter leaves here the exception that nobody caught. Of an interactive one it is only
    # the last that was shown.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if hasattr(sys, "ps1"):
        error = None
    # By Ctrl-C the interpreter ends with the signal itself, which runs no handler of exit.
    by_signal = isinstance(error, KeyboardInterrupt)
    _native.loaded().end(_is_shortage(error), by_signal)


def _is_shortage(error: BaseException | None) -> bool:
    """Whether the error, or one that it followed from, is a shortage that Spillway told of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, torch.OutOfMemoryError) and str(error).startswith("Spillway:"):
            return True
        error = error.__cause__ or error.__context__
    return False
