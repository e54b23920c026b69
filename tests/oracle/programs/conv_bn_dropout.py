# SPDX-License-Identifier: Apache-2.0
"""Convolution, batch norm, dropout: running statistics and the random state are written."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


def run(optimizer, size):
    batch, channels, side = pick(size, tiny=(4, 4, 16), full=(32, 16, 64))
    layers = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(pick(size, tiny=2, full=4)):
        layers += [
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Dropout(0.2),
        ]
    model = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, 10)
    )
    batches = [(torch.randn(batch, 3, side, side), torch.randint(10, (batch,))) for _ in range(2)]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
