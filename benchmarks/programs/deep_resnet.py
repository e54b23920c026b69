# SPDX-License-Identifier: Apache-2.0
"""A ResNet of bottleneck blocks on 32^2, batch 16, SGD, whose third stage is as deep as asked.

The other stages have 6, 32 and 6 blocks: as where SuperNeurons measured depth (Wang et al. 2018).
"""

import torch
from torch import nn
from training import options, train

STAGES = (6, 32, None, 6)  # blocks; None: --blocks
EXPANSION = 4  # of the channels, by a block


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = EXPANSION * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        same = inputs == outputs and stride == 1
        self.short = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


class DeepResNet(nn.Sequential):
    def __init__(self, width, blocks):
        layers, inputs = [nn.Conv2d(3, width, 3, 1, 1, bias=False)], width
        for stage, count in enumerate(STAGES):
            channels = width << stage
            for block in range(blocks if count is None else count):
                stride = 2 if stage and not block else 1
                layers.append(Bottleneck(inputs, channels, stride))
                inputs = EXPANSION * channels
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def main():
    chosen = options(__doc__, blocks=32, batch=16, width=8, size=32)
    model = DeepResNet(chosen.width, chosen.blocks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(chosen.batch, 3, chosen.size, chosen.size)
    labels = torch.randint(10, (chosen.batch,))
    loss = nn.CrossEntropyLoss()
    train(model, optimizer, lambda: loss(model(images), labels), chosen.steps)


if __name__ == "__main__":
    main()
