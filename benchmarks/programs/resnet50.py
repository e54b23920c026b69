# SPDX-License-Identifier: Apache-2.0
"""torchvision's ResNet-50 on 224^2, batch 32, SGD: the memory is many middling activations."""

import torch
import torchvision
from less_memory import WAYS, saved_of
from torch import nn
from training import options, train


def main():
    chosen = options(__doc__, ways=WAYS, size=224, batch=32)
    model = torchvision.models.resnet50(weights=None)
    layers = (model.layer1, model.layer2, model.layer3, model.layer4)
    saved = saved_of(model, [block for layer in layers for block in layer], chosen.saved)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(chosen.batch, 3, chosen.size, chosen.size)
    labels = torch.randint(1000, (chosen.batch,))
    loss = nn.CrossEntropyLoss()

    def loss_of():
        with saved:
            return loss(model(images), labels)

    train(model, optimizer, loss_of, chosen.steps)


if __name__ == "__main__":
    main()
