# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation take turns, batches are ragged, inference mode and no_grad mix."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, width, side = pick(size, tiny=(4, 4, 8), full=(24, 16, 64))
    model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1))
    for _ in range(pick(size, tiny=1, full=4)):
        model.extend([nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)])
    model.extend([nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 5)])
    model = model.to(memory_format=torch.channels_last)
    steps = optimizer_for(optimizer, model.parameters())
    held_out = torch.randn(batch, 3, side, side)
    losses = []
    for rows in (batch, batch // 2, batch):
        x, labels = torch.randn(rows, 3, side, side), torch.randint(5, (rows,))
        model.train()
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        steps.step()
        model.eval()
        with torch.inference_mode():
            scores = model(held_out)
        with torch.no_grad():
            plain = model(held_out[: rows // 2])
        losses += [loss.item(), scores.sum().item(), plain.abs().max().item()]
    return outcome(losses, model, optimizer=steps)
