# SPDX-License-Identifier: Apache-2.0
"""Every layer's weights live in CPU memory and are copied to the card where they are used, as
offloading libraries do; what is saved for backward goes to CPU memory, page-locked or not."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import optimizer_for, outcome, pick


class Borrowed(nn.Linear):
    def forward(self, x):
        weight = self.weight.to(DEVICE, non_blocking=True)
        return nn.functional.gelu(nn.functional.linear(x, weight, self.bias.to(DEVICE)))


def run(optimizer_name, size):
    train_the_same_every_time()
    width, depth = pick(size, tiny=(32, 3), full=(768, 8))
    model = nn.Sequential(*[Borrowed(width, width) for _ in range(depth)])
    optimizer = optimizer_for(optimizer_name, model.parameters())
    batch = torch.randn(256, width)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        locked = DEVICE == "cuda" and step % 2 == 1
        with torch.autograd.graph.save_on_cpu(pin_memory=locked):
            loss = model(batch.to(DEVICE)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=optimizer)
