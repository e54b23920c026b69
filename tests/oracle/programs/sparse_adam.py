# SPDX-License-Identifier: Apache-2.0
"""Embedding with sparse gradients under SparseAdam, next to dense weights under Adagrad."""

import torch
from torch import nn

from tests.oracle.training import outcome, pick


def run(optimizer, size):
    rows, width, batch = pick(size, tiny=(50, 8, 16), full=(60000, 64, 4096))
    table = nn.Embedding(rows, width, sparse=True)
    other = nn.Embedding(rows, width, sparse=True)
    head = nn.Sequential(nn.Linear(2 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 1))
    sparse = torch.optim.SparseAdam([table.weight, other.weight], lr=0.01)
    dense = torch.optim.Adagrad(head.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        left, right = torch.randint(rows, (2, batch))
        sparse.zero_grad()
        dense.zero_grad()
        joined = torch.cat([table(left), other(right)], dim=1)
        loss = head(joined).square().mean() + joined.square().mean()
        loss.backward()
        sparse.step()
        dense.step()
        losses.append(loss.item())
    return outcome(losses, table, other, head, optimizer=sparse)
