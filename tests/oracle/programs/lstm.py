# SPDX-License-Identifier: Apache-2.0
"""Stacked LSTMs: two single layers, one of two layers with dropout, state carried over steps."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick


class Model(nn.Module):
    def __init__(self, width, stack):
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.singles = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(stack))
        self.pair = nn.LSTM(width, width // 2, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width // 2, 100)

    def forward(self, tokens, state):
        x = self.embed(tokens)
        for single in self.singles:
            x = x + single(x)[0]
        x, state = self.pair(x, state)
        return self.head(x), state


def run(optimizer, size):
    batch, length, width, stack = pick(size, tiny=(2, 6, 8, 2), full=(32, 64, 96, 5))
    model = Model(width, stack)
    steps = optimizer_for(optimizer, model.parameters())
    state, losses = None, []
    for _ in range(3):
        tokens = torch.randint(100, (batch, length + 1))
        steps.zero_grad()
        logits, state = model(tokens[:, :-1], state)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        steps.step()
        state = tuple(s.detach() for s in state)
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps, hidden=state[0], cell=state[1])
