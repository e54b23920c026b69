# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that pass through CPU memory: state kept aside every step, saved, loaded, resumed."""

import io

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import optimizer_for, outcome, pick


def _step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = model(batch.to(DEVICE)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def run(optimizer_name, size):
    train_the_same_every_time()
    width = pick(size, tiny=32, full=1024)

    def make():
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    model = make().to(DEVICE)
    optimizer = optimizer_for(optimizer_name, model.parameters())
    batch = torch.randn(64, width)
    losses, aside = [], []
    for _ in range(3):
        losses.append(_step(model, optimizer, batch))
        aside.append({name: value.cpu() for name, value in model.state_dict().items()})
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    model = make()
    model.load_state_dict(loaded["model"])
    model = model.to(DEVICE)
    optimizer = optimizer_for(optimizer_name, model.parameters())
    optimizer.load_state_dict(loaded["optimizer"])
    for _ in range(2):
        losses.append(_step(model, optimizer, batch))
    kept = {f"{index}.{n}": v for index, state in enumerate(aside) for n, v in state.items()}
    return outcome(losses, model, optimizer=optimizer, **kept)
