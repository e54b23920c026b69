# SPDX-License-Identifier: Apache-2.0
"""The whole model and optimizer through pickle, in memory, between steps."""

import copyreg
import io
import pickle

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(6144, 256, 6))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Sigmoid()]
    model, x, losses = nn.Sequential(*layers), torch.randn(rows, width), []
    steps = optimizer_for(optimizer, model.parameters())
    for _ in range(3):
        steps.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())
        stream = io.BytesIO()
        pickler = pickle.Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = copyreg.dispatch_table.copy()
        pickler.dump((model, steps.state_dict()))
        stream.seek(0)
        restored, state = pickle.load(stream)
        model = restored
        steps = optimizer_for(optimizer, model.parameters())
        steps.load_state_dict(state)
        del restored, state, stream
    return outcome(losses, model, optimizer=steps)
