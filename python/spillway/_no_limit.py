# SPDX-License-Identifier: Apache-2.0
"""What is said of a program that trains on the CPU, where its budget is of a graphics card.

A budget that names no device is of a card where PyTorch has one. Whether the program uses it is
known at an optimizer's first step.
"""

import os
import sys

import torch

from spillway import _native

_process = os.getpid()  # of which it is said, not of those that are forked from it
_looked = False


def look(optimizer: torch.optim.Optimizer) -> None:
    """Warns of it at the first step that is managed. Costs nothing at the others."""
    global _looked
    settings = _native.settings or _native.awaiting_card
    if _looked or settings is None or os.getpid() != _process:
        return
    _looked = True
    budget = settings.get("SPILLWAY_BUDGET", "")
    if not _native.names_no_device(budget) or not _native.budget_is_of_a_card():
        return
    if not torch.cuda.is_initialized() and _is_on_the_cpu(optimizer):
        print(
            f"spillway: warning: the budget of {budget} is of the graphics card's memory, and this "
            "program trains on the CPU, whose memory has no limit. It has one with a budget of "
            f"cpu:{budget}",
            file=sys.stderr,
            flush=True,
        )


def _is_on_the_cpu(optimizer: torch.optim.Optimizer) -> bool:
    return all(
        parameter.device.type == "cpu"
        for group in optimizer.param_groups
        for parameter in group["params"]
    )
