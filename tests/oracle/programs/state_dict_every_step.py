# SPDX-License-Identifier: Apache-2.0
"""A checkpoint to disk after every step, and the best one restored at the end."""

import os
import tempfile

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(1024, 768, 4))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses, best = [], None
    with tempfile.TemporaryDirectory() as folder:
        for step in range(3):
            steps.zero_grad()
            loss = (model(x) - x).square().mean()
            loss.backward()
            steps.step()
            path = os.path.join(folder, f"{step}.pt")
            torch.save({"model": model.state_dict(), "optimizer": steps.state_dict()}, path)
            if best is None or loss.item() < best[0]:
                best = (loss.item(), path)
            losses.append(loss.item())
        loaded = torch.load(best[1])
    model.load_state_dict(loaded["model"])
    steps.load_state_dict(loaded["optimizer"])
    return outcome(losses, model, optimizer=steps)
