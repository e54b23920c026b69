# SPDX-License-Identifier: Apache-2.0
"""A deep copy follows the model as exponential moving average, by foreach and by lerp."""

import copy

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(2048, 768, 4))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    model = nn.Sequential(*layers)
    average = copy.deepcopy(model).requires_grad_(False)
    steps = optimizer_for(optimizer, model.parameters())
    x, y = torch.randn(rows, width), torch.randn(rows, width)
    losses = []
    for step in range(3):
        steps.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        steps.step()
        with torch.no_grad():
            ours, theirs = list(average.parameters()), list(model.parameters())
            if step % 2:
                torch._foreach_lerp_(ours, theirs, 0.1)
            else:
                for mean, current in zip(ours, theirs, strict=True):
                    mean.mul_(0.9).add_(current, alpha=0.1)
            losses += [loss.item(), nn.functional.mse_loss(average(x), y).item()]
    return outcome(losses, model, average, optimizer=steps)
