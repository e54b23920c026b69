# SPDX-License-Identifier: Apache-2.0
"""The usual loop: workers load, batches are page-locked and copied without waiting, half precision
with a gradient scaler."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer_name, size):
    train_the_same_every_time()
    count, side = pick(size, tiny=(12, 16), full=(96, 128))
    images = [torch.randn(3, side, side) for _ in range(count)]
    loader = torch.utils.data.DataLoader(
        [(image, index % 10) for index, image in enumerate(images)],
        batch_size=count // 3,
        num_workers=2,
        pin_memory=DEVICE == "cuda",
    )
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
    ).to(DEVICE)  # fmt: skip
    optimizer = optimizer_for(optimizer_name, model.parameters())
    scaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE == "cuda")
    losses = []
    for image, label in loader:
        image, label = (t.to(DEVICE, non_blocking=True) for t in (image, label))
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.float16 if DEVICE == "cuda" else torch.bfloat16):
            loss = nn.functional.cross_entropy(model(image), label)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=optimizer, images=torch.stack(images[:8]))
