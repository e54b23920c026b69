# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoder translation: GRU encoder, attention in a Python loop over target positions,
teacher forcing chosen by a coin."""

import random

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick


class Model(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.query, self.out = nn.Linear(width, width), nn.Linear(2 * width, vocabulary)

    def forward(self, source, target):
        memory, hidden = self.encoder(self.source(source))
        hidden, token, logits = hidden[0], target[:, 0], []
        for position in range(1, target.shape[1]):
            scores = torch.bmm(memory, self.query(hidden).unsqueeze(2))
            context = (F.softmax(scores, dim=1) * memory).sum(dim=1)
            hidden = self.cell(torch.cat([self.target(token), context], dim=1), hidden)
            logits.append(self.out(torch.cat([hidden, context], dim=1)))
            forced = random.random() < 0.5
            token = target[:, position] if forced else logits[-1].argmax(dim=1)
        return torch.stack(logits, dim=1)


def run(optimizer, size):
    batch, length, width, vocabulary = pick(size, tiny=(2, 5, 8, 20), full=(128, 32, 160, 600))
    model = Model(width, vocabulary)
    steps = optimizer_for(optimizer, model.parameters())
    source, target = torch.randint(vocabulary, (2, batch, length))
    losses = []
    for _ in range(3):
        steps.zero_grad()
        logits = model(source, target)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
