# SPDX-License-Identifier: Apache-2.0
"""Input embedding and output projection are one parameter, used at both ends of the graph."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick, train


class Model(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        for layer in self.body[1:]:
            layer.bias = self.body[0].bias

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.body:
            x = x + F.gelu(layer(x))
        return self.head(x)


def run(optimizer, size):
    tokens, vocabulary, width, depth = pick(size, tiny=(16, 30, 8, 2), full=(4096, 800, 160, 6))
    model = Model(vocabulary, width, depth)
    batches = [torch.randint(vocabulary, (2, tokens)) for _ in range(2)]
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, batches, lambda m, b: F.cross_entropy(m(b[0]) * 0.1, b[1]), steps)
    return outcome(losses, model, optimizer=steps)
