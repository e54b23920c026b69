# SPDX-License-Identifier: Apache-2.0
"""Speech: one-dimensional convolutions, a GRU, CTC loss over unequal lengths."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick


class Model(nn.Module):
    def __init__(self, features, width, depth):
        super().__init__()
        self.enter = nn.Conv1d(features, width, 5, 2, 2)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, width, 5, 1, 2) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.recurrent = nn.GRU(width, width // 4, batch_first=True)
        self.head = nn.Linear(width // 4, 29)

    def forward(self, x):
        x = self.enter(x)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = x + F.relu(norm(convolution(x)))
        x, _ = self.recurrent(x.transpose(1, 2))
        return F.log_softmax(self.head(x), dim=-1).transpose(0, 1)


def run(optimizer, size):
    batch, frames, width, depth = pick(size, tiny=(2, 32, 8, 1), full=(48, 288, 96, 10))
    model = Model(16, width, depth)
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        x = torch.randn(batch, 16, frames)
        lengths = torch.randint(3, frames // 8 + 1, (batch,))
        targets = torch.randint(1, 29, (int(lengths.sum()),))
        steps.zero_grad()
        scores = model(x)
        inputs = torch.full((batch,), scores.shape[0], dtype=torch.long)
        loss = F.ctc_loss(scores, targets, inputs, lengths, zero_infinity=True)
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
