# SPDX-License-Identifier: Apache-2.0
"""3D U-Net: skip connections keep early activations until the end of the forward pass."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


def _double(inputs, outputs):
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, padding=1),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.LeakyReLU(0.01),
        nn.Conv3d(outputs, outputs, 3, padding=1),
        nn.InstanceNorm3d(outputs, affine=True),
        nn.LeakyReLU(0.01),
    )


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.top, self.middle = _double(1, width), _double(width, 2 * width)
        self.bottom = _double(2 * width, 4 * width)
        self.up_middle = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2)
        self.up_top = nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.join_middle, self.join_top = _double(4 * width, 2 * width), _double(2 * width, width)
        self.head = nn.Conv3d(width, 3, 1)

    def forward(self, x):
        top = self.top(x)
        middle = self.middle(nn.functional.max_pool3d(top, 2))
        bottom = self.bottom(nn.functional.max_pool3d(middle, 2))
        middle = self.join_middle(torch.cat([middle, self.up_middle(bottom)], dim=1))
        return self.head(self.join_top(torch.cat([top, self.up_top(middle)], dim=1)))


def run(optimizer, size):
    batch, width, side = pick(size, tiny=(1, 2, 8), full=(1, 8, 64))
    model = UNet(width)
    batches = [
        (torch.randn(batch, 1, side, side, side), torch.randint(3, (batch, side, side, side)))
    ]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
