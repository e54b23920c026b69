# SPDX-License-Identifier: Apache-2.0
"""torch.autograd.Function: saved inputs, saved outputs, marked dirty, once differentiable."""

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from tests.oracle.training import optimizer_for, outcome, pick, train


class ScaledTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        result = torch.tanh(x * scale)
        ctx.save_for_backward(x, scale, result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        x, scale, result = ctx.saved_tensors
        inner = gradient * (1 - result * result)
        return inner * scale, (inner * x).sum()


class ClampInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        ctx.mask = x.abs() < 1
        return x.clamp_(-1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.mask


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return x + ScaledTanh.apply(ClampInPlace.apply(self.linear(x)), self.scale)


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 6))
    model = nn.Sequential(*(Layer(width) for _ in range(depth)))
    batch = torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [batch], lambda m, b: (m(b) - b.flip(0)).square().mean(), steps)
    return outcome(losses, model, optimizer=steps)
