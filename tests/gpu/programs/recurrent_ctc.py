# SPDX-License-Identifier: Apache-2.0
"""Packed sequences through a fused recurrent kernel, and a loss whose targets and lengths stay in
CPU memory."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer_name, size):
    train_the_same_every_time()
    width, steps = pick(size, tiny=(16, 12), full=(256, 100))
    model = nn.ModuleDict(
        {
            "lstm": nn.LSTM(width, width, 2, bidirectional=True, dropout=0.1),
            "head": nn.Linear(2 * width, 20),
        }
    ).to(DEVICE)
    optimizer = optimizer_for(optimizer_name, model.parameters())
    sound = torch.randn(steps, 8, width)
    lengths = torch.arange(steps, steps - 8, -1)
    targets = torch.randint(1, 20, (8, 5))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        packed = nn.utils.rnn.pack_padded_sequence(sound.to(DEVICE), lengths)
        padded, out_lengths = nn.utils.rnn.pad_packed_sequence(model["lstm"](packed)[0])
        scores = model["head"](padded).log_softmax(-1)
        loss = nn.functional.ctc_loss(scores, targets, out_lengths, torch.full((8,), 5))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=optimizer, sound=sound, targets=targets)
