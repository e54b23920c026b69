# SPDX-License-Identifier: Apache-2.0
"""torchvision ResNet-18, classification."""

import torch
from torch import nn
from torchvision.models import resnet18

from tests.oracle.training import optimizer_for, outcome, pick, train


def run(optimizer, size):
    batch, side = pick(size, tiny=(2, 32), full=(16, 96))
    model = resnet18(weights=None, num_classes=10)
    batches = [(torch.randn(batch, 3, side, side), torch.randint(10, (batch,)))]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(
        model, batches, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), steps, steps=2
    )
    return outcome(losses, model, optimizer=steps)
