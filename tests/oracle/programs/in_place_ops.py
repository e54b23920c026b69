# SPDX-License-Identifier: Apache-2.0
"""In-place arithmetic, masked and indexed writes, out= variants, on activations and buffers."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("seen", torch.zeros(width))

    def forward(self, x):
        y = self.linear(x)
        y.mul_(0.5).add_(x).clamp_(-3, 3)
        y[:, ::2] = y[:, ::2] * 2
        y[0].zero_()
        y.masked_fill_(x > 2.5, 0.1)
        y.index_add_(0, torch.tensor([1, 3]), x[:2].detach())
        with torch.no_grad():
            self.seen.lerp_(y.mean(dim=0), 0.3)
        return torch.relu_(y)


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 6))
    model = nn.Sequential(*(Layer(width) for _ in range(depth)))
    steps = optimizer_for(optimizer, model.parameters())
    x = torch.randn(rows, width)
    scratch, total = torch.empty(rows, width), torch.zeros(rows, width)
    losses = []
    for _ in range(3):
        steps.zero_grad()
        out = model(x)
        loss = out.square().mean()
        loss.backward()
        steps.step()
        with torch.no_grad():
            torch.sub(out, x, out=scratch)
            torch.add(total, scratch, out=total)
            x.addcmul_(scratch, scratch, value=-1e-3).copy_(x.flip(0))
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps, total=total, inputs=x)
