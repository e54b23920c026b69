# SPDX-License-Identifier: Apache-2.0
"""torchvision FCN with a ResNet-50 backbone, semantic segmentation with an auxiliary loss."""

import torch
from torch import nn
from torchvision.models.segmentation import fcn_resnet50

from tests.oracle.training import optimizer_for, outcome, pick, train


def segmentation_loss(model, batch):
    """The reference training script's loss: main output plus half of the auxiliary one."""
    outputs = model(batch[0])
    main = nn.functional.cross_entropy(outputs["out"], batch[1])
    return main + 0.5 * nn.functional.cross_entropy(outputs["aux"], batch[1])


def run(optimizer, size, build=fcn_resnet50):
    batch, side = pick(size, tiny=(2, 32), full=(2, 96))
    model = build(weights=None, weights_backbone=None, num_classes=5, aux_loss=True)
    batches = [(torch.randn(batch, 3, side, side), torch.randint(5, (batch, side, side)))]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, segmentation_loss, steps, steps=2)
    return outcome(losses, model, optimizer=steps)
