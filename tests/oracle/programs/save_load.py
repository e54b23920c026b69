# SPDX-License-Identifier: Apache-2.0
"""torch.save in mid-run, everything dropped, torch.load into new objects, training goes on."""

import os
import tempfile

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _build(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers)


def _steps(model, steps, x, count, losses):
    for _ in range(count):
        steps.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(1024, 768, 5))
    model, x, losses = _build(width, depth), torch.randn(rows, width), []
    steps = optimizer_for(optimizer, model.parameters())
    _steps(model, steps, x, 2, losses)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        state = {
            "model": model.state_dict(),
            "optimizer": steps.state_dict(),
            "random": torch.get_rng_state(),
        }
        torch.save(state, path)
        del model, steps, state
        torch.randn(1000)
        loaded = torch.load(path)
    model = _build(width, depth)
    model.load_state_dict(loaded["model"])
    steps = optimizer_for(optimizer, model.parameters())
    steps.load_state_dict(loaded["optimizer"])
    torch.set_rng_state(loaded["random"])
    del loaded
    _steps(model, steps, x, 2, losses)
    return outcome(losses, model, optimizer=steps)
