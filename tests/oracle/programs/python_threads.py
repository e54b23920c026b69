# SPDX-License-Identifier: Apache-2.0
"""Two Python threads, each training a model of its own at the same time."""

import threading

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _train(model, x, optimizer, losses):
    torch.set_num_threads(1)
    steps = optimizer_for(optimizer, model.parameters())
    for _ in range(3):
        steps.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(6000, 160, 5))
    models = []
    for _ in range(2):
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)]
        models.append(nn.Sequential(*layers))
    inputs, losses = torch.randn(2, rows, width), ([], [])
    threads = [
        threading.Thread(target=_train, args=(model, x, optimizer, into))
        for model, x, into in zip(models, inputs, losses, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(len(into) == 3 for into in losses):
        raise RuntimeError("a training thread died; its error is above")
    return outcome(losses[0] + losses[1], *models)
