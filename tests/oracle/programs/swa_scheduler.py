# SPDX-License-Identifier: Apache-2.0
"""Learning-rate schedules in sequence, then stochastic weight averaging and its batch norm pass."""

import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 1), full=(6000, 160, 6))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters(), lr=0.05)
    warm = lr_scheduler.LinearLR(steps, 0.1, total_iters=2)
    cosine = lr_scheduler.CosineAnnealingLR(steps, T_max=4)
    schedule = lr_scheduler.SequentialLR(steps, [warm, cosine], milestones=[2])
    average = swa_utils.AveragedModel(model)
    losses = []
    for step in range(4):
        steps.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        schedule.step()
        if step >= 1:
            average.update_parameters(model)
        losses += [loss.item(), schedule.get_last_lr()[0]]
    swa_utils.update_bn([x], average)
    return outcome(losses, model, average, optimizer=steps)
