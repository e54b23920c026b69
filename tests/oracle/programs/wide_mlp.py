# SPDX-License-Identifier: Apache-2.0
"""Weights, gradients and optimizer state outweigh the activations by far.

Not under a fused optimizer: its step needs the three of them whole, so what may leave beside it, in
the forward pass, are activations.
"""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(4, 16, 2), full=(64, 1024, 8))
    if optimizer == "adamw_fused":
        rows = pick(size, tiny=4, full=2560)
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    batches = [(torch.randn(rows, width), torch.randint(10, (rows,))) for _ in range(3)]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
