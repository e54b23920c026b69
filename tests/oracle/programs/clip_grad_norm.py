# SPDX-License-Identifier: Apache-2.0
"""Gradients clipped by norm and by value, the norm logged, gradients zeroed by foreach."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(1024, 768, 6))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LeakyReLU()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for step in range(3):
        loss = (model(x) - x).square().sum()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=step != 1)
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        steps.step()
        losses += [loss.item(), norm.item()]
        if step < 2:
            torch._foreach_zero_([p.grad for p in model.parameters()])
    return outcome(losses, model, optimizer=steps)
