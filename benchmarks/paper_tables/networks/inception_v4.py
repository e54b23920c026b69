# SPDX-License-Identifier: Apache-2.0
"""Inception-V4 (Szegedy, Ioffe, Vanhoucke, Alemi: "Inception-v4, Inception-ResNet and the impact of
residual connections on learning", 2016), which torchvision does not have."""

from collections.abc import Callable

import torch
from torch import nn

from .training import classification_step

#: Padding of kernels that keep the size, by kernel.
_SAME = {1: 0, 3: 1, (1, 3): (0, 1), (3, 1): (1, 0), (1, 7): (0, 3), (7, 1): (3, 0)}
_WIDE, _HIGH = (1, 7), (7, 1)


def _convolve(inputs, outputs, kernel, stride=1, same=True) -> nn.Sequential:
    padding = _SAME[kernel] if same and stride == 1 else 0
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001),
        nn.ReLU(inplace=True),
    )


def _chain(inputs: int, *convolutions: tuple) -> nn.Sequential:
    """Convolutions one after the other: (channels, kernel) or (channels, kernel, stride)."""
    layers = []
    for outputs, *shape in convolutions:
        layers.append(_convolve(inputs, outputs, *shape))
        inputs = outputs
    return nn.Sequential(*layers)


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    pool = nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
    return nn.Sequential(pool, _convolve(inputs, outputs, 1))


class Branches(nn.Module):
    """Concatenates the results of all branches on the same input."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def _halve() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, 2)


def _stem() -> nn.Sequential:
    return nn.Sequential(
        _convolve(3, 32, 3, 2),
        _convolve(32, 32, 3, same=False),
        _convolve(32, 64, 3),
        Branches(_halve(), _convolve(64, 96, 3, 2)),
        Branches(
            nn.Sequential(_convolve(160, 64, 1), _convolve(64, 96, 3, same=False)),
            nn.Sequential(
                _chain(160, (64, 1), (64, _WIDE), (64, _HIGH)), _convolve(64, 96, 3, same=False)
            ),
        ),
        Branches(_convolve(192, 192, 3, 2), _halve()),
    )


def _block_a() -> Branches:
    return Branches(
        _convolve(384, 96, 1),
        _chain(384, (64, 1), (96, 3)),
        _chain(384, (64, 1), (96, 3), (96, 3)),
        _pooled(384, 96),
    )


def _reduction_a() -> Branches:
    return Branches(
        _convolve(384, 384, 3, 2), _chain(384, (192, 1), (224, 3), (256, 3, 2)), _halve()
    )


def _block_b() -> Branches:
    return Branches(
        _convolve(1024, 384, 1),
        _chain(1024, (192, 1), (224, _WIDE), (256, _HIGH)),
        _chain(1024, (192, 1), (192, _HIGH), (224, _WIDE), (224, _HIGH), (256, _WIDE)),
        _pooled(1024, 128),
    )


def _reduction_b() -> Branches:
    return Branches(
        _chain(1024, (192, 1), (192, 3, 2)),
        _chain(1024, (256, 1), (256, _WIDE), (320, _HIGH), (320, 3, 2)),
        _halve(),
    )


def _block_c() -> Branches:
    def split(inputs: int) -> Branches:
        return Branches(_convolve(inputs, 256, (1, 3)), _convolve(inputs, 256, (3, 1)))

    return Branches(
        _convolve(1536, 256, 1),
        nn.Sequential(_convolve(1536, 384, 1), split(384)),
        nn.Sequential(_chain(1536, (384, 1), (448, (3, 1)), (512, (1, 3))), split(512)),
        _pooled(1536, 256),
    )


def inception_v4(batch: int) -> Callable[[], None]:
    """Images of 299 pixels."""
    network = nn.Sequential(
        _stem(),
        *[_block_a() for _ in range(4)],
        _reduction_a(),
        *[_block_b() for _ in range(7)],
        _reduction_b(),
        *[_block_c() for _ in range(3)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(1536, 1000),
    )
    return classification_step(network, batch, (3, 299, 299), 1000)
