# SPDX-License-Identifier: Apache-2.0
"""Tensors held by generators, closures, cycles and weak references; some die in odd moments."""

import gc
import weakref

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _activations(layers, x):
    for layer in layers:
        x = torch.tanh(layer(x))
        yield x


def _replay(capacity):
    kept = []

    def remember(tensor):
        kept.append(tensor.detach())
        if len(kept) > capacity:
            kept.pop(0)
        return torch.stack([k.mean() for k in kept]).sum()

    return remember


class Cycle:
    def __init__(self, tensor):
        self.tensor, self.me = tensor, self


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 3), full=(8192, 128, 8))
    layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
    steps = optimizer_for(optimizer, layers.parameters())
    remember, x, losses = _replay(2), torch.randn(rows, width), []
    for _ in range(3):
        steps.zero_grad()
        stages = _activations(layers, x)
        loss = sum(stage.square().mean() for stage in stages)
        abandoned = _activations(layers, x)
        last = next(abandoned)
        weak = weakref.ref(Cycle(last * 2))
        (loss + (last - 0.1).square().mean()).backward()
        steps.step()
        losses += [loss.item(), remember(last).item()]
        gc.collect()
        if weak() is not None:
            raise RuntimeError("the cycle should have been collected")
    return outcome(losses, layers, optimizer=steps)
