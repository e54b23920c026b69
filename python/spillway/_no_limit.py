# SPDX-License-Identifier: Apache-2.0
"""What is said of a program that trains on the CPU, where its budget is of a graphics card.

A budget that names no device is of a card where PyTorch has one. Whether the program uses it is
known at an optimizer's first step.
"""

import sys

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from spillway import _native

_watching = False


def watch() -> None:
    """Looks at the first step of an optimizer, once per process."""
    global _watching
    if _watching or not _names_no_device() or not _native.budget_is_of_a_card():
        return
    _watching = True

    def look(*_: object) -> None:
        first_step.remove()
        if not torch.cuda.is_initialized() and _names_no_device():
            print(f"spillway: warning: {_words(_budget())}", file=sys.stderr, flush=True)

    first_step = register_optimizer_step_pre_hook(look)


def _budget() -> str:
    return (_native.settings or {}).get("SPILLWAY_BUDGET", "")


def _names_no_device() -> bool:
    budget = _budget()
    return bool(budget) and ":" not in budget


def _words(budget: str) -> str:
    return (
        f"the budget of {budget} is of the graphics card's memory, and this program trains on the "
        f"CPU, whose memory has no limit. To give it one: SPILLWAY_BUDGET=cpu:{budget}"
    )
