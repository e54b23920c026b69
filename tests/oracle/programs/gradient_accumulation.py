# SPDX-License-Identifier: Apache-2.0
"""Several micro-batches per step; the last micro-batch is smaller."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(10, 8, 2), full=(12000, 256, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.SiLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 4))
    x, labels = torch.randn(rows, width), torch.randint(4, (rows,))
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        steps.zero_grad(set_to_none=False)
        for part in torch.arange(rows).split(rows * 2 // 5):
            loss = nn.functional.cross_entropy(model(x[part]), labels[part])
            (loss * part.numel() / rows).backward()
            losses.append(loss.item())
        steps.step()
    return outcome(losses, model, optimizer=steps)
