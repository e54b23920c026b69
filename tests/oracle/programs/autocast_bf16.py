# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: autocast to bfloat16 with its weight cache, and a gradient scaler."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, width, side = pick(size, tiny=(2, 4, 8), full=(64, 16, 64))
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(pick(size, tiny=1, full=4)):
        layers += [nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10))
    steps = optimizer_for(optimizer, model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    losses = []
    for _ in range(3):
        x, labels = torch.randn(batch, 3, side, side), torch.randint(10, (batch,))
        steps.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(steps)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(steps)
        scaler.update()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
