# SPDX-License-Identifier: Apache-2.0
"""A transformer with a mixture of experts, batch 8: the memory is weights and the state of Adam."""

import torch
from torch import nn
from torch.nn import functional
from training import options, train


class Experts(nn.Module):
    """Each token goes to the expert that its gate likes best, weighted by the gate."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
            for _ in range(experts)
        )

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weight, chosen = functional.softmax(self.gate(tokens), dim=1).max(dim=1)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            mine = (chosen == number).nonzero().flatten()
            output = output.index_add(0, mine, expert(tokens[mine]) * weight[mine, None])
        return output.view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, experts):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.experts = Experts(width, experts)

    def forward(self, x):
        normal = self.norm1(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        return x + self.experts(self.norm2(x))


def main():
    chosen = options(
        __doc__, experts=12, batch=8, width=256, heads=8, layers=2, size=32, vocabulary=1024
    )
    model = nn.Sequential(
        nn.Embedding(chosen.vocabulary, chosen.width),
        *(Block(chosen.width, chosen.heads, chosen.experts) for _ in range(chosen.layers)),
        nn.Linear(chosen.width, chosen.vocabulary),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = torch.randint(chosen.vocabulary, (chosen.batch, chosen.size + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
    train(
        model, optimizer,
        lambda: functional.cross_entropy(model(inputs).flatten(0, 1), targets), chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
