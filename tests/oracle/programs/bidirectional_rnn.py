# SPDX-License-Identifier: Apache-2.0
"""Bidirectional tanh RNNs whose two directions are joined and projected."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class Model(nn.Module):
    def __init__(self, width, stack):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.RNN(width, width, bidirectional=True, batch_first=True) for _ in range(stack)
        )
        self.joins = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(stack))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        for layer, join in zip(self.layers, self.joins, strict=True):
            x = torch.tanh(join(layer(x)[0])) + x
        return self.head(x[:, -1])


def run(optimizer, size):
    batch, length, width, stack = pick(size, tiny=(2, 5, 8, 1), full=(96, 64, 96, 5))
    model = Model(width, stack)
    batches = [(torch.randn(batch, length, width), torch.randn(batch, 3))]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: nn.functional.mse_loss(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
