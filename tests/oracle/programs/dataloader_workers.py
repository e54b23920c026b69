# SPDX-License-Identifier: Apache-2.0
"""Two forked DataLoader workers index a TensorDataset while the parent trains."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, batch = pick(size, tiny=(24, 8, 8), full=(12000, 512, 4000))
    layers = []
    for _ in range(pick(size, tiny=1, full=3)):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 4))
    dataset = TensorDataset(torch.randn(rows, width), torch.randint(4, (rows,)))
    loader = DataLoader(
        dataset,
        batch_size=batch,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="fork",
        generator=torch.Generator().manual_seed(7),
    )
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(pick(size, tiny=1, full=2)):
        for x, labels in loader:
            steps.zero_grad()
            loss = nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            steps.step()
            losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
