# SPDX-License-Identifier: Apache-2.0
"""Graph network: messages gathered by edge, summed with index_add, maxed with scatter_reduce."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message, self.update = nn.Linear(2 * width, width), nn.Linear(3 * width, width)

    def forward(self, nodes, source, target):
        pairs = torch.cat([nodes[source], nodes.index_select(0, target)], dim=1)
        messages = torch.relu(self.message(pairs))
        total = torch.zeros_like(nodes).index_add(0, target, messages)
        index = target.unsqueeze(1).expand_as(messages)
        largest = torch.zeros_like(nodes).scatter_reduce(0, index, messages, "amax")
        return nodes + torch.relu(self.update(torch.cat([nodes, total, largest], dim=1)))


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 4)

    def forward(self, nodes, source, target):
        for layer in self.layers:
            nodes = layer(nodes, source, target)
        return self.head(nodes)


def run(optimizer, size):
    nodes, edges, width, layers = pick(size, tiny=(20, 60, 8, 2), full=(4000, 24000, 48, 4))
    model = Model(width, layers)
    source, target = torch.randint(nodes, (2, edges))
    batch = (torch.randn(nodes, width), source, target, torch.randint(4, (nodes,)))
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [batch], lambda m, b: nn.functional.cross_entropy(m(*b[:3]), b[3]), steps)
    return outcome(losses, model, optimizer=steps)
