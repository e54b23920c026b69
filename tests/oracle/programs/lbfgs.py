# SPDX-License-Identifier: Apache-2.0
"""LBFGS with line search: the closure runs an unforeseeable number of times."""

import torch
from torch import nn

from tests.oracle.training import outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(16, 8, 1), full=(8192, 128, 12))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(width, 1))
    x, y = torch.randn(rows, width), torch.randn(rows, 1)
    steps = torch.optim.LBFGS(
        model.parameters(), lr=0.5, max_iter=3, history_size=4, line_search_fn="strong_wolfe"
    )
    losses = []

    def closure():
        steps.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(pick(size, tiny=1, full=2)):
        steps.step(closure)
    return outcome(losses, model)
