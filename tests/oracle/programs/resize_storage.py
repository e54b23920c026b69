# SPDX-License-Identifier: Apache-2.0
"""Storages resized to nothing and back, as sharded training frees and gathers its parameters."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(1024, 768, 5))
    shards = nn.ParameterList(nn.Parameter(torch.randn(width, width) * 0.02) for _ in range(depth))
    gathered = [torch.empty(width, width) for _ in range(depth)]
    for full in gathered:
        full.untyped_storage().resize_(0)
    steps = optimizer_for(optimizer, shards.parameters())
    grown, x = torch.empty(0), torch.randn(rows, width)
    losses = []
    for step in range(3):
        steps.zero_grad()
        y = x
        for shard, full in zip(shards, gathered, strict=True):
            full.untyped_storage().resize_(full.numel() * full.element_size())
            full.copy_(shard.detach())
            y = torch.tanh(F.linear(y, shard)) + 0.1 * F.linear(y, full.clone())
            full.untyped_storage().resize_(0)
        loss = y.square().mean()
        loss.backward()
        steps.step()
        grown.resize_((step + 1) * rows, width)[step * rows :].copy_(y.detach())
        losses.append(loss.item())
    return outcome(losses, shards, optimizer=steps, grown=grown)
