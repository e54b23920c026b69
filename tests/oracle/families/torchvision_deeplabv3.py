# SPDX-License-Identifier: Apache-2.0
"""torchvision DeepLabV3: dilated convolutions, pyramid pooling, upsampling."""

from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

from tests.oracle.families import torchvision_fcn


def run(optimizer, size):
    return torchvision_fcn.run(optimizer, size, build=deeplabv3_mobilenet_v3_large)
