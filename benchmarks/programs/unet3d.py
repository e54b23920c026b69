# SPDX-License-Identifier: Apache-2.0
"""3D U-Net on crops of 96^3, batch 2, AdamW: the memory is activations of few large layers."""

import itertools

import torch
from less_memory import WAYS, saved_of
from torch import nn
from training import options, train


def double(inputs, outputs):
    layers = []
    for first in (inputs, outputs):
        layers += [
            nn.Conv3d(first, outputs, 3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.01),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Five levels; each halves the edges and doubles the channels (Çiçek et al. 2016)."""

    def __init__(self, width, classes, levels=5):
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([1, *widths], widths, strict=False))
        pairs = list(itertools.pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(deep, flat, 2, 2) for flat, deep in pairs)
        self.join = nn.ModuleList(double(2 * flat, flat) for flat, _ in pairs)
        self.pool = nn.MaxPool3d(2)
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        skips.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            x = join(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def main():
    chosen = options(__doc__, ways=WAYS, size=96, batch=2, width=16)
    edges = (chosen.size,) * 3
    model = UNet(chosen.width, classes=3)
    saved = saved_of(model, [*model.down, *model.join], chosen.saved)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images = torch.randn(chosen.batch, 1, *edges)
    labels = torch.randint(3, (chosen.batch, *edges))
    loss = nn.CrossEntropyLoss()

    def loss_of():
        with saved:
            return loss(model(images), labels)

    train(model, optimizer, loss_of, chosen.steps)


if __name__ == "__main__":
    main()
