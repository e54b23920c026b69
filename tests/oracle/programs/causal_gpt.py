# SPDX-License-Identifier: Apache-2.0
"""Decoder-only language model with fused causal attention and learned positions."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick, train


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attend_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.attend_norm(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.mlp_norm(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def run(optimizer, size):
    batch, length, width, layers = pick(size, tiny=(2, 16, 16, 2), full=(6, 256, 128, 6))
    vocabulary = pick(size, tiny=50, full=1000)
    model = Gpt(vocabulary, length, width, layers)
    batches = [torch.randint(vocabulary, (batch, length + 1)) for _ in range(2)]
    steps = optimizer_for(optimizer, model.parameters())

    def loss_of(m, b):
        return F.cross_entropy(m(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())

    losses = train(model, batches, loss_of, steps)
    return outcome(losses, model, optimizer=steps)
