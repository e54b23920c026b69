# SPDX-License-Identifier: Apache-2.0
"""torch.compile: kernels that the C++ compiler made read and write storages unseen by dispatch."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.first(self.norm(x))
        return x + self.second(y * torch.sigmoid(1.702 * y))


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(16, 8, 1), full=(4096, 128, 6))
    blocks = nn.ModuleList(Block(width) for _ in range(depth))
    compiled = [torch.compile(block) for block in blocks]
    x = torch.randn(rows, width)
    steps = optimizer_for(optimizer, blocks.parameters())

    def loss_of(_, b):
        y = b
        for block in compiled:
            y = block(y)
        return (y - b.flip(0)).square().mean()

    losses = train(blocks, [x], loss_of, steps)
    return outcome(losses, blocks, optimizer=steps)
