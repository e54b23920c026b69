# SPDX-License-Identifier: Apache-2.0
"""A GPT in plain PyTorch, AdamW. As large as GPT-2 XL unless told otherwise: 1.56 G parameters."""

import torch
from less_memory import WAYS, saved_of
from torch import nn
from torch.nn import functional
from training import options, train

DEFAULTS = {
    "layers": 48, "width": 1600, "heads": 25, "size": 1024, "vocabulary": 50257,
}  # fmt: skip


class Block(nn.Module):
    """A block of a transformer with its normalisation in front, as in GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.expand, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, size, width = x.shape
        parts = self.expand(self.norm1(x)).view(batch, size, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(batch, size, width))
        hidden = functional.gelu(self.widen(self.norm2(x)), approximate="tanh")
        return x + self.narrow(hidden)


class GPT(nn.Module):
    def __init__(self, layers, width, heads, size, vocabulary):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(size, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.draw)

    @staticmethod
    def draw(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    chosen = options(__doc__, ways=WAYS, batch=1, **DEFAULTS)
    model = GPT(chosen.layers, chosen.width, chosen.heads, chosen.size, chosen.vocabulary)
    saved = saved_of(model, model.blocks, chosen.saved)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(chosen.vocabulary, (chosen.batch, chosen.size + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()

    def loss_of():
        with saved:
            return functional.cross_entropy(model(inputs).flatten(0, 1), targets)

    train(model, optimizer, loss_of, chosen.steps)


if __name__ == "__main__":
    main()
