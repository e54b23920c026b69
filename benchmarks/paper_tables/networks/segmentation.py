# SPDX-License-Identifier: Apache-2.0
"""3D U-Nets for brain tumours in four kinds of images, one sample a step: the plain one (Çiçek et
al. 2016), and the residual one (Isensee et al. 2017) that large-model-support was measured with."""

from collections.abc import Callable

import torch
from torch import nn

from .training import training_step


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


class Convolve(nn.Sequential):
    """Convolution, instance normalisation, leaky ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv3d(inputs, outputs, kernel, stride, padding=kernel // 2),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.3),
        )


class ResidualUNet3d(nn.Module):
    """Five levels of 16 to 256 channels; segments at three of them and adds up (deep supervision).

    Narrower at full resolution than the plain network: what is joined there has 32 channels
    instead of 192.
    """

    def __init__(self, channels: int = 4, classes: int = 3, width: int = 16) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(5)]
        self.enter = nn.ModuleList()
        self.context = nn.ModuleList()
        inputs = channels
        for level, w in enumerate(widths):
            self.enter.append(Convolve(inputs, w, stride=1 if level == 0 else 2))
            self.context.append(nn.Sequential(Convolve(w, w), nn.Dropout3d(0.3), Convolve(w, w)))
            inputs = w
        self.grow = nn.ModuleList()
        self.localise = nn.ModuleList()
        self.segment = nn.ModuleDict()
        for level in reversed(range(4)):
            w = widths[level]
            self.grow.append(nn.Sequential(nn.Upsample(scale_factor=2), Convolve(inputs, w)))
            self.localise.append(nn.Sequential(Convolve(2 * w, w), Convolve(w, w, kernel=1)))
            if level < 3:
                self.segment[str(level)] = nn.Conv3d(w, classes, 1)
            inputs = w

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for enter, context in zip(self.enter, self.context):
            x = enter(x)
            x = x + context(x)
            skipped.append(x)
        skipped.pop()
        result = None
        for grow, localise in zip(self.grow, self.localise):
            level = len(skipped) - 1
            x = localise(torch.cat([skipped.pop(), grow(x)], dim=1))
            if level < 3:
                here = self.segment[str(level)](x)
                result = here if result is None else here + result
                if level > 0:
                    result = nn.functional.interpolate(result, scale_factor=2)
        return result


def _step(network: nn.Module, resolution: int, batch: int) -> Callable[[], None]:
    volume = torch.zeros(batch, 4, resolution, resolution, resolution)
    truth = torch.zeros(batch, 3, resolution, resolution, resolution)

    def loss() -> torch.Tensor:
        inside = torch.sigmoid(network(volume))
        overlap = (inside * truth).sum()
        return 1 - (2 * overlap + 1) / (inside.sum() + truth.sum() + 1)  # Dice

    return training_step(network, loss)


def unet3d(resolution: int, batch: int = 1) -> Callable[[], None]:
    """One volume of resolution^3 voxels; the resolution is a multiple of 8."""
    return _step(UNet3d(), resolution, batch)


def residual_unet3d(resolution: int, batch: int = 1) -> Callable[[], None]:
    """One volume of resolution^3 voxels; the resolution is a multiple of 16."""
    return _step(ResidualUNet3d(), resolution, batch)
