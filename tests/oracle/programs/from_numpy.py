# SPDX-License-Identifier: Apache-2.0
"""Data that lives in numpy arrays: from_numpy, as_tensor, buffers, and a round trip per step."""

import numpy
import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Softplus()]
    model = nn.Sequential(*layers)
    steps = optimizer_for(optimizer, model.parameters())
    source = numpy.random.default_rng(3).standard_normal((rows, width), dtype=numpy.float32)
    foreign = torch.from_numpy(source)
    raw = torch.frombuffer(bytearray(source[:4].tobytes()), dtype=torch.float32)
    losses = []
    for _ in range(3):
        steps.zero_grad()
        loss = (model(foreign) - torch.as_tensor(source)).square().mean() + raw.sum() * 0
        loss.backward()
        steps.step()
        foreign.mul_(0.98)  # writes the numpy array
        result = model(foreign[:16]).detach().numpy()
        losses += [loss.item(), float(numpy.abs(result).sum(dtype=numpy.float64))]
    return outcome(losses, model, optimizer=steps, foreign=foreign)
