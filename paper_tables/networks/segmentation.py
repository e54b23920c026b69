# SPDX-License-Identifier: Apache-2.0
"""3D U-Net (Çiçek et al. 2016) as large-model-support was measured with it: brain tumours in four
kinds of images, one sample a step."""

from collections.abc import Callable

import torch
from torch import nn

from paper_tables.networks.training import training_step


def _twice(inputs: int, middle: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(inputs, middle, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv3d(middle, outputs, 3, padding=1),
        nn.ReLU(inplace=True),
    )


class UNet3d(nn.Module):
    """Four levels; channels double from one to the next."""

    def __init__(self, channels: int = 4, classes: int = 3, width: int = 32) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(4)]
        self.down = nn.ModuleList()
        inputs = channels
        for w in widths:
            self.down.append(_twice(inputs, w, 2 * w))
            inputs = 2 * w
        self.up = nn.ModuleList()
        self.grow = nn.ModuleList()
        for w in reversed(widths[:-1]):
            self.grow.append(nn.ConvTranspose3d(inputs, inputs, 2, 2))
            self.up.append(_twice(inputs + 2 * w, 2 * w, 2 * w))
            inputs = 2 * w
        self.head = nn.Conv3d(inputs, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool3d(x, 2))
            skipped.append(x)
        skipped.pop()
        for grow, block in zip(self.grow, self.up):
            x = block(torch.cat([grow(x), skipped.pop()], dim=1))
        return self.head(x)


def unet3d(resolution: int, batch: int = 1) -> Callable[[], None]:
    """One volume of resolution^3 voxels; the resolution is a multiple of 8."""
    network = UNet3d()
    volume = torch.zeros(batch, 4, resolution, resolution, resolution)
    truth = torch.zeros(batch, 3, resolution, resolution, resolution)

    def loss() -> torch.Tensor:
        inside = torch.sigmoid(network(volume))
        overlap = (inside * truth).sum()
        return 1 - (2 * overlap + 1) / (inside.sum() + truth.sum() + 1)  # Dice

    return training_step(network, loss)
