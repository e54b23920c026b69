# SPDX-License-Identifier: Apache-2.0
"""Wasserstein critic with gradient penalty: the graph of a gradient is differentiated."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, width, side = pick(size, tiny=(2, 4, 8), full=(48, 16, 32))
    critic = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(width, width, 3, 2, 1),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(width * side * side // 4, 1),
    )
    steps = optimizer_for(optimizer, critic.parameters())
    losses = []
    for _ in range(3):
        real, fake = torch.randn(2, batch, 3, side, side)
        share = torch.rand(batch, 1, 1, 1)
        between = (share * real + (1 - share) * fake).requires_grad_()
        steps.zero_grad()
        (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (gradient.flatten(1).norm(dim=1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, critic, optimizer=steps, points=between.grad)
