# SPDX-License-Identifier: Apache-2.0
"""A numpy view of a tensor is held over many ops, read and written through; so is the memory of
a parameter."""

import numpy
import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(10240, 128, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    view = x.numpy()  # alias, alive until the end
    weight_view = model[0].weight.detach().numpy()
    losses = []
    for _ in range(3):
        steps.zero_grad()
        out = model(x)
        view[::2] *= numpy.float32(0.99)  # between forward and backward, unseen by torch
        loss = (out - 0.1).square().mean()
        loss.backward()
        steps.step()
        weight_view += numpy.float32(1e-4)
        losses += [loss.item(), float(view.sum(dtype=numpy.float64)), float(weight_view[0, 0])]
    copied = torch.from_numpy(model[-2].weight.detach().numpy().copy())
    return outcome(losses, model, optimizer=steps, inputs=x, copied=copied)
