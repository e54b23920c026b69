# SPDX-License-Identifier: Apache-2.0
"""Parametrisations: weight norm, spectral norm (whose power iteration writes buffers) and a
symmetric weight of our own."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from tests.oracle.training import optimizer_for, outcome, pick, train


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 1), full=(6000, 192, 2))
    layers = []
    for _ in range(depth):
        symmetric = nn.Linear(width, width)
        parametrize.register_parametrization(symmetric, "weight", Symmetric())
        layers += [
            parametrizations.weight_norm(nn.Linear(width, width)),
            nn.Tanh(),
            parametrizations.spectral_norm(nn.Linear(width, width)),
            nn.ELU(),
            symmetric,
            nn.Tanh(),
        ]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [x], lambda m, b: (m(b) - b.roll(1, 0)).square().mean(), steps)
    return outcome(losses, model, optimizer=steps)
