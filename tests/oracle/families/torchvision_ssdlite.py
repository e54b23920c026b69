# SPDX-License-Identifier: Apache-2.0
"""torchvision SSDlite detection: anchors, matching, hard negative mining, varying targets."""

import torch
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

from tests.oracle.training import optimizer_for, outcome, pick


def _targets(batch):
    targets = []
    for index in range(batch):
        corners = torch.rand(1 + index % 3, 2) * 100
        boxes = torch.cat([corners, corners + 20 + torch.rand_like(corners) * 80], dim=1)
        targets.append({"boxes": boxes, "labels": torch.randint(1, 6, (len(boxes),))})
    return targets


def run(optimizer, size):
    batch = pick(size, tiny=2, full=3)
    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=6)
    model.train()
    steps = optimizer_for(optimizer, model.parameters(), lr=0.001)
    losses = []
    for _ in range(2):
        images = [torch.rand(3, 200 + 20 * index, 220) for index in range(batch)]
        steps.zero_grad()
        parts = model(images, _targets(batch))
        loss = sum(parts.values())
        loss.backward()
        steps.step()
        losses += [loss.item()] + [part.item() for part in parts.values()]
    return outcome(losses, model, optimizer=steps)
