# SPDX-License-Identifier: Apache-2.0
"""Recommendation: embedding bags in three modes, offsets, per-sample weights, feature crossing."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode=mode) for mode in ("sum", "mean", "max")
        )
        self.deep = nn.Sequential(nn.Linear(3 * width, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, indices, offsets, weights):
        bags = [
            self.bags[0](indices, offsets, per_sample_weights=weights),
            self.bags[1](indices, offsets),
            self.bags[2](indices, offsets),
        ]
        crossed = (bags[0] * bags[1]).sum(dim=1, keepdim=True)
        return self.deep(torch.cat(bags, dim=1)) + crossed


def run(optimizer, size):
    rows, width, batch, each = pick(size, tiny=(40, 8, 6, 3), full=(40000, 48, 2048, 8))
    model = Model(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        indices = torch.randint(rows, (batch * each,))
        offsets, weights = torch.arange(0, batch * each, each), torch.rand(batch * each)
        labels = torch.randint(2, (batch, 1)).float()
        steps.zero_grad()
        logits = model(indices, offsets, weights)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
