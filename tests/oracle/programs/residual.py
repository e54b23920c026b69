# SPDX-License-Identifier: Apache-2.0
"""Pre-activation residual network with strided stages, group norm and global pooling."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.middle = nn.GroupNorm(2, outputs)
        self.shortcut = (
            nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        )

    def forward(self, x):
        y = self.first(torch.relu(self.norm(x)))
        return self.shortcut(x) + self.second(torch.relu(self.middle(y)))


def run(optimizer, size):
    batch, width, side = pick(size, tiny=(2, 4, 16), full=(14, 16, 64))
    depth = pick(size, tiny=1, full=3)
    blocks = [nn.Conv2d(3, width, 3, padding=1)]
    for stage in range(3):
        outputs = width << stage
        for index in range(depth):
            first = stage > 0 and index == 0
            blocks.append(Block(outputs // 2 if first else outputs, outputs, 2 if first else 1))
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width * 4, 10))
    batches = [(torch.randn(batch, 3, side, side), torch.randint(10, (batch,)))]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
