# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing, reentrant: backward runs forward again inside an autograd node."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.oracle.training import optimizer_for, outcome, pick, train

REENTRANT = True


class Model(nn.Module):
    def __init__(self, width, segments, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.enter = nn.Linear(width, width)
        self.segments = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Dropout(0.1),
                nn.Linear(2 * width, width),
                nn.LayerNorm(width),
            )
            for _ in range(segments)
        )

    def forward(self, x):
        x = self.enter(x)
        for segment in self.segments:
            x = x + checkpoint(segment, x, use_reentrant=self.reentrant)
        return x


def run(optimizer, size, reentrant=REENTRANT):
    rows, width, segments = pick(size, tiny=(16, 8, 2), full=(8192, 128, 6))
    model = Model(width, segments, reentrant)
    batches = [torch.randn(rows, width)]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: m(b).square().mean(), steps)
    return outcome(losses, model, optimizer=steps)
