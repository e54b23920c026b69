# SPDX-License-Identifier: Apache-2.0
"""Float training that evaluates an int8 matrix product of itself after every step."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _quantised(tensor):
    scale = tensor.abs().amax() / 127
    return (tensor / scale).round().clamp(-127, 127).to(torch.int8), scale


@torch.no_grad()
def _evaluate(model, x):
    for layer in model:
        if isinstance(layer, nn.Linear):
            left, left_scale = _quantised(x)
            right, right_scale = _quantised(layer.weight)
            product = torch._int_mm(left, right.t().contiguous())
            x = product.float() * (left_scale * right_scale) + layer.bias
        else:
            x = layer(x)
    return x


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(32, 16, 2), full=(8192, 192, 9))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers)
    x, y = torch.randn(rows, width), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        steps.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        steps.step()
        losses += [loss.item(), nn.functional.mse_loss(_evaluate(model, x), y).item()]
    return outcome(losses, model, optimizer=steps)
