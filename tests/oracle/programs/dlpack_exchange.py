# SPDX-License-Identifier: Apache-2.0
"""Tensors exported and imported through DLPack and the buffer protocol while training goes on."""

import numpy
import torch
from torch import nn
from torch.utils import dlpack

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 192, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    alias = torch.from_dlpack(x)
    array = numpy.from_dlpack(x)
    losses = []
    for _ in range(3):
        steps.zero_grad()
        loss = (model(alias) - 0.2).square().mean()
        loss.backward()
        steps.step()
        alias.mul_(0.99)
        once = dlpack.from_dlpack(dlpack.to_dlpack(model[0].weight.detach()))
        once.add_(1e-5)
        losses += [loss.item(), float(array[0].sum()), x.sum().item()]
    return outcome(losses, model, optimizer=steps, inputs=x)
