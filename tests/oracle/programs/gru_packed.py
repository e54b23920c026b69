# SPDX-License-Identifier: Apache-2.0
"""GRU over packed sequences of unequal lengths."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, length, width, stack = pick(size, tiny=(3, 6, 8, 1), full=(96, 80, 96, 5))
    layers = nn.ModuleList(nn.GRU(width, width, batch_first=True) for _ in range(stack))
    head = nn.Linear(width, 7)
    steps = optimizer_for(optimizer, [*layers.parameters(), *head.parameters()])
    losses = []
    for _ in range(3):
        # Packing takes lengths in CPU memory, wherever the program trains.
        lengths = torch.randint(length // 2, length + 1, (batch,), device="cpu")
        x, labels = torch.randn(batch, length, width), torch.randint(7, (batch,))
        steps.zero_grad()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        for layer in layers:
            packed, last = layer(packed)
        padded, _ = pad_packed_sequence(packed, batch_first=True)
        loss = F.cross_entropy(head(last[-1]), labels) + padded.square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, layers, head, optimizer=steps)
