# SPDX-License-Identifier: Apache-2.0
"""Another allocator in place of PyTorch's on a card, which a budget there would not hold for."""

import functools

import torch

from spillway import _native

_CHANGE = "_cuda_changeCurrentAllocator"


def install() -> None:
    """Wraps what ``torch.cuda.memory.change_current_allocator`` calls. To be called once."""
    original = getattr(torch._C, _CHANGE, None)
    if original is None:
        return

    @functools.wraps(original)
    def change(allocator):
        if _native.budget_is_of_a_card():
            raise RuntimeError(
                "Spillway: another allocator for the card's memory would keep to no budget. Leave "
                "change_current_allocator out, or hold the CPU's memory: SPILLWAY_BUDGET=cpu:8GiB."
            )
        return original(allocator)

    setattr(torch._C, _CHANGE, change)
