# SPDX-License-Identifier: Apache-2.0
"""Tensor.set_ and .data: parameters that change storage, tensors that trade theirs."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _flatten(model):
    """Moves all parameters into one storage, as optimizers with flat parameters do."""
    parameters = list(model.parameters())
    flat = torch.empty(sum(p.numel() for p in parameters))
    offset = 0
    for parameter in parameters:
        end = offset + parameter.numel()
        flat[offset:end].copy_(parameter.detach().flatten())
        parameter.data = flat[offset:end].view_as(parameter)
        offset = end
    return flat


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(6000, 192, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers)
    flat = _flatten(model)
    steps = optimizer_for(optimizer, model.parameters())
    x, spare = torch.randn(rows, width), torch.randn(rows, width)
    losses = []
    for _ in range(3):
        steps.zero_grad()
        loss = (model(x) - 0.1).square().mean()
        loss.backward()
        steps.step()
        flat.mul_(0.999)
        held = x.untyped_storage()
        x.set_(spare.untyped_storage(), 0, (rows, width), (width, 1))
        spare = torch.empty(0).set_(held, 0, (rows, width), (width, 1))
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps, flat=flat, spare=spare)
