# SPDX-License-Identifier: Apache-2.0
"""Quantisation-aware training with fake quantisation, per tensor and per channel, learned scale."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class QuantisedLinear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.scale = nn.Parameter(torch.tensor([0.05]))
        self.register_buffer("zero", torch.zeros(1))

    def forward(self, x):
        x = torch._fake_quantize_learnable_per_tensor_affine(
            x, self.scale, self.zero, -128, 127, 1.0
        )
        weight = self.linear.weight
        scales = (weight.detach().abs().amax(dim=1) / 127).clamp_min(1e-8)
        zeros = torch.zeros(weight.shape[0], dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(weight, scales, zeros, 0, -128, 127)
        return nn.functional.linear(x, weight, self.linear.bias)


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 192, 6))
    layers = []
    for _ in range(depth):
        layers += [QuantisedLinear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 3))
    batch = (torch.randn(rows, width), torch.randint(3, (rows,)))
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [batch], lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
