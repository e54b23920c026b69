# SPDX-License-Identifier: Apache-2.0
"""A table too large for the card stays in CPU memory; the layers above it are on the card. Backward
crosses from autograd's thread of the card to the one of the processor."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import optimizer_for, outcome, pick, train


class Tagger(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2).to(DEVICE)
        self.head = nn.Linear(width, 16).to(DEVICE)

    def forward(self, words):
        return self.head(self.encoder(self.table(words).to(DEVICE, non_blocking=True)))


def run(optimizer_name, size):
    train_the_same_every_time()
    words, width, length = pick(size, tiny=(200, 32, 8), full=(40_000, 256, 64))
    model = Tagger(words, width)
    optimizer = optimizer_for(optimizer_name, model.parameters())
    batches = [torch.randint(0, words, (8, length)) for _ in range(2)]

    def loss_of(model, batch):
        scores = model(batch).flatten(0, 1)
        return nn.functional.cross_entropy(scores, batch.flatten().to(DEVICE) % 16)

    losses = train(model, batches, loss_of, optimizer)
    return outcome(losses, model, optimizer=optimizer)
