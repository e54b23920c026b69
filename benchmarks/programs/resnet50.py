# SPDX-License-Identifier: Apache-2.0
"""torchvision's ResNet-50 on 224^2, batch 32, SGD: the memory is many middling activations."""

import torch
import torchvision
from torch import nn
from training import options, train


def main():
    chosen = options(__doc__, size=224, batch=32)
    model = torchvision.models.resnet50(weights=None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(chosen.batch, 3, chosen.size, chosen.size)
    labels = torch.randint(1000, (chosen.batch,))
    loss = nn.CrossEntropyLoss()
    train(model, optimizer, lambda: loss(model(images), labels), chosen.steps)


if __name__ == "__main__":
    main()
