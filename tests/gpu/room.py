# SPDX-License-Identifier: Apache-2.0
"""A budget that leaves a known room for tensors, whatever else the process holds on the card.

A context takes some 500 MiB of a real card, libraries more as they are loaded; on the stand-in a
context takes 8 MiB.
"""

import torch

import spillway


def make_room(size):
    """Narrows the budget of this process, which a wide one was started with, to `size` bytes beside
    what it holds now. Returns the budget."""
    matrix = torch.ones(512, 512, device="cuda")
    matrix.matmul(matrix).sum().item()  # the libraries that most programs load
    budget = size + spillway.stats().unmanaged_bytes
    spillway.enable(f"cuda:{budget}")
    return budget


def run_parts(parts, names):
    """Runs those with these names, or all of them, and prints which have run."""
    for part in parts:
        if not names or part.__name__ in names:
            part()
            print(part.__name__, flush=True)
