# SPDX-License-Identifier: Apache-2.0
"""Exceptions in forward, in a backward hook and inside an op; training then goes on."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


class InterruptionError(Exception):
    pass


def _interrupt(*_):
    raise InterruptionError


def _attempt(model, x, steps, where):
    steps.zero_grad()
    handle = None
    if where == "forward":
        handle = model[2].register_forward_hook(_interrupt)
    elif where == "backward":
        handle = model[2].weight.register_hook(_interrupt)
    try:
        out = model(x)
        if where == "op":
            out @ out  # shapes do not fit: raised by the kernel's checks
        loss = (out - 0.1).square().mean()
        loss.backward()
        steps.step()
        return loss.item()
    except (InterruptionError, RuntimeError) as error:
        return float(len(type(error).__name__))
    finally:
        if handle is not None:
            handle.remove()


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(12, 8, 3), full=(8192, 128, 8))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.SiLU()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    plan = (None, "forward", None, "backward", "op", None)
    losses = [_attempt(model, x, steps, where) for where in plan]
    return outcome(losses, model, optimizer=steps)
