# SPDX-License-Identifier: Apache-2.0
"""Hogwild in small: a child process adds to parameters that live in shared memory."""

import torch
from torch import multiprocessing, nn

from tests.oracle.training import optimizer_for, outcome, pick


def _nudge(model, done):
    torch.set_num_threads(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1e-3)
    done.set()


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 10))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model, x = nn.Sequential(*layers).share_memory(), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    context, losses = multiprocessing.get_context("fork"), []
    for _ in range(3):
        steps.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        done = context.Event()
        child = context.Process(target=_nudge, args=(model, done))
        child.start()
        child.join(120)
        if not done.is_set():
            raise RuntimeError(f"the child did not finish; exit code {child.exitcode}")
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
