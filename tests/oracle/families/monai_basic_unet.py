# SPDX-License-Identifier: Apache-2.0
"""MONAI's plain 3D U-Net."""

from monai.networks.nets import BasicUNet

from tests.oracle.families import monai_unet


def _build():
    return BasicUNet(spatial_dims=3, in_channels=1, out_channels=2, features=(8, 8, 16, 32, 64, 8))


def run(optimizer, size):
    return monai_unet.run(optimizer, size, model_of=_build)
