# SPDX-License-Identifier: Apache-2.0
"""Weights and data from files by mmap: memory that torch's allocator never saw."""

import os
import tempfile

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(4096, 384, 6))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model, losses = nn.Sequential(*layers), []
    with tempfile.TemporaryDirectory() as folder:
        weights, data = os.path.join(folder, "weights.pt"), os.path.join(folder, "data.bin")
        torch.save(model.state_dict(), weights)
        torch.randn(rows, width).numpy().tofile(data)
        model.load_state_dict(torch.load(weights, mmap=True), assign=True)
        x = torch.from_file(data, shared=True, size=rows * width).view(rows, width)
        steps = optimizer_for(optimizer, model.parameters())
        for _ in range(3):
            steps.zero_grad()
            loss = (model(x) - x).square().mean()
            loss.backward()
            steps.step()
            x.mul_(0.99)
            losses.append(loss.item())
        return outcome(losses, model, optimizer=steps, data=x.clone())
