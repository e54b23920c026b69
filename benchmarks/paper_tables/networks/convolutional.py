# SPDX-License-Identifier: Apache-2.0
"""Image classifiers, from torchvision where it has them."""

from collections.abc import Callable

import torch
import torchvision
from torch import nn

from .training import classification_step

_IMAGENET = (3, 224, 224)
_DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


def _resnet(blocks: tuple[int, ...], batch: int) -> Callable[[], None]:
    network = torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, list(blocks))
    return classification_step(network, batch, _IMAGENET, 1000)


def resnet(batch: int, depth: int = 50) -> Callable[[], None]:
    """ResNet of a published depth (He et al. 2016)."""
    return _resnet(_DEPTHS[depth], batch)


def resnet_blocks(layers: int) -> tuple[int, int, int, int]:
    """Bottleneck blocks per stage of a network of about that many layers.

    Only the third stage grows, as SuperNeurons and TensorFlowMem count: three layers a block, and
    one before and one after.
    """
    third = max(1, round((layers - 2) / 3) - 3 - 4 - 3)
    return 3, 4, third, 3


def resnet_layers(batch: int, layers: int) -> Callable[[], None]:
    """ResNet of about that many layers."""
    return _resnet(resnet_blocks(layers), batch)


def inception_v3(batch: int) -> Callable[[], None]:
    """Szegedy et al. 2016, images of 299 pixels."""
    network = torchvision.models.inception_v3(init_weights=False, aux_logits=True)
    return classification_step(network, batch, (3, 299, 299), 1000)


def googlenet(batch: int) -> Callable[[], None]:
    """Szegedy et al. 2015, with both auxiliary classifiers."""
    network = torchvision.models.googlenet(init_weights=False, aux_logits=True)
    return classification_step(network, batch, _IMAGENET, 1000)


def vgg(batch: int, depth: int = 16) -> Callable[[], None]:
    """Simonyan and Zisserman 2015; depth 16 or 19."""
    network = {16: torchvision.models.vgg16, 19: torchvision.models.vgg19}[depth](
        init_weights=False
    )
    return classification_step(network, batch, _IMAGENET, 1000)


def alexnet(batch: int) -> Callable[[], None]:
    """Krizhevsky 2014, the one-tower form."""
    return classification_step(torchvision.models.alexnet(), batch, _IMAGENET, 1000)


class WideBlock(nn.Module):
    """Pre-activation basic block (Zagoruyko and Komodakis 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            if inputs != outputs or stride != 1
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        active = torch.relu(self.norm1(x))
        y = self.conv2(torch.relu(self.norm2(self.conv1(active))))
        return y + (x if self.shortcut is None else self.shortcut(active))


def wide_resnet(batch: int, widen: int = 4, depth: int = 40) -> Callable[[], None]:
    """WRN-40-k on images of 32 pixels."""
    blocks = (depth - 4) // 6
    widths = (16, 16 * widen, 32 * widen, 64 * widen)
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    for stage in range(3):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            inputs = widths[stage] if block == 0 else widths[stage + 1]
            layers.append(WideBlock(inputs, widths[stage + 1], stride))
    head = (nn.BatchNorm2d(widths[3]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network = nn.Sequential(*layers, *head, nn.Linear(widths[3], 10))
    return classification_step(network, batch, (3, 32, 32), 10)
