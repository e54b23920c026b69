# SPDX-License-Identifier: Apache-2.0
"""copy.deepcopy of model and optimizer together; original and copy then train apart."""

import copy

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _step(model, steps, x):
    steps.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    steps.step()
    return loss.item()


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(2048, 640, 4))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = [_step(model, steps, x)]
    twin, twin_steps = copy.deepcopy((model, steps))
    for _ in range(2):
        losses.append(_step(model, steps, x))
        losses.append(_step(twin, twin_steps, x.flip(0)))
    return outcome(losses, model, twin, optimizer=twin_steps)
