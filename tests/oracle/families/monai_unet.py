# SPDX-License-Identifier: Apache-2.0
"""MONAI's residual 3D U-Net with Dice and cross-entropy loss."""

import torch
from monai.losses import DiceCELoss
from monai.networks.nets import UNet

from tests.oracle.training import optimizer_for, outcome, pick, train


def build():
    return UNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=2,
        channels=(16, 32, 64, 128),
        strides=(2, 2, 2),
        num_res_units=2,
    )


def run(optimizer, size, model_of=build):
    batch, side = pick(size, tiny=(1, 32), full=(2, 64))
    model = model_of()
    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    volumes = torch.randn(batch, 1, side, side, side)
    labels = torch.randint(2, (batch, 1, side, side, side))
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [(volumes, labels)], lambda m, b: loss(m(b[0]), b[1]), steps, steps=2)
    return outcome(losses, model, optimizer=steps)
