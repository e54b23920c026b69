# SPDX-License-Identifier: Apache-2.0
"""Top-2 routing: which rows an expert sees depends on values, so shapes change every step."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick, train


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(count)
        )

    def forward(self, x):
        weights, chosen = F.softmax(self.router(x), dim=-1).topk(2)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        result = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows, slot = (chosen == index).nonzero(as_tuple=True)
            if rows.numel() == 0:
                continue
            result = result.index_add(0, rows, expert(x[rows]) * weights[rows, slot, None])
        return x + result


def run(optimizer, size):
    tokens, width, layers = pick(size, tiny=(24, 8, 1), full=(4096, 64, 3))
    model = nn.Sequential(*(Experts(width, 4) for _ in range(layers)), nn.Linear(width, 10))
    batches = [(torch.randn(tokens, width), torch.randint(10, (tokens,))) for _ in range(2)]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: F.cross_entropy(m(b[0]), b[1]), steps)
    return outcome(losses, model, optimizer=steps)
