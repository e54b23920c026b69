# SPDX-License-Identifier: Apache-2.0
"""Jagged nested tensors: sequences of unequal length without padding."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, longest, width, depth = pick(size, tiny=(3, 6, 8, 1), full=(96, 192, 96, 5))
    layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
    head = nn.Linear(width, 4)
    steps = optimizer_for(optimizer, [*layers.parameters(), *head.parameters()])
    lengths = torch.randint(longest // 2, longest, (batch,)).tolist()
    parts = [torch.randn(length, width) for length in lengths]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    labels = torch.randint(4, (batch,))
    losses = []
    for _ in range(3):
        steps.zero_grad()
        x = nested
        for layer in layers:
            x = x + F.gelu(layer(x))
        pooled = torch.stack([sequence.mean(dim=0) for sequence in x.unbind()])
        loss = F.cross_entropy(head(pooled), labels)
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, layers, head, optimizer=steps, values=nested.values())
