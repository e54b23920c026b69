# SPDX-License-Identifier: Apache-2.0
"""Raw pointers through ctypes: data_ptr taken, used at once, and memory copied both ways."""

import ctypes

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _scale_first(tensor, factor):
    values = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))
    for index in range(8):
        values[index] = values[index] * factor


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Hardswish()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    mirror = torch.empty_like(x)
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        steps.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        _scale_first(x, 0.5)
        for parameter in model.parameters():
            _scale_first(parameter.detach(), 0.999)
        storage = x.untyped_storage()
        ctypes.memmove(mirror.data_ptr(), storage.data_ptr(), storage.nbytes())
        losses += [loss.item(), mirror.sum().item()]
    return outcome(losses, model, optimizer=steps, inputs=x, mirror=mirror)
