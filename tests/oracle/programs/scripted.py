# SPDX-License-Identifier: Apache-2.0
"""TorchScript: a scripted module with control flow, trained, saved and loaded, frozen too."""

import io

import torch
from torch import Tensor, nn

from tests.oracle.training import optimizer_for, outcome, pick, train


def _scripted(width):
    """A class of its own for each run, so that no run inherits another's profile and graphs."""

    class Layer(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

        def forward(self, x: Tensor, depth: int) -> Tensor:
            for index in range(depth):
                if index % 2 == 0:
                    x = torch.tanh(self.first(x)) + x
                else:
                    x = torch.relu(self.second(x)) * 0.5 + x
            return x

    return torch.jit.script(Layer(width))


def _loaded(model):
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 8))
    model = _scripted(width)
    x = torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [x], lambda m, b: (m(b, depth) - 0.3).square().mean(), steps)
    with torch.no_grad():
        evaluated = _loaded(model)(x, depth) + _loaded(torch.jit.freeze(model.eval()))(x, depth)
    return outcome(losses, model, optimizer=steps, evaluated=evaluated)
