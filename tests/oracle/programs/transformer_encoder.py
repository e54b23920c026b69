# SPDX-License-Identifier: Apache-2.0
"""nn.TransformerEncoder with padding mask and dropout."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class Classifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.embed = nn.Embedding(200, width)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, tokens, padding):
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        return self.head(hidden.mean(dim=1))


def run(optimizer, size):
    batch, length, width, layers = pick(size, tiny=(2, 16, 16, 2), full=(32, 128, 64, 6))
    model = Classifier(width, layers)
    tokens = torch.randint(200, (batch, length))
    padding = torch.arange(length) >= torch.randint(length // 2, length, (batch, 1))
    labels = torch.randint(5, (batch,))
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(
        model,
        [(tokens, padding, labels)],
        lambda m, b: nn.functional.cross_entropy(m(b[0], b[1]), b[2]),
        steps,
    )
    return outcome(losses, model, optimizer=steps)
