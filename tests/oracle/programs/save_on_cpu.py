# SPDX-License-Identifier: Apache-2.0
"""saved_tensors_hooks: save_on_cpu, and a pack hook that keeps halves of its own."""

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from tests.oracle.training import optimizer_for, outcome, pick


def _pack(tensor):
    if tensor.dtype is not torch.float32 or tensor.numel() < 2:
        return tensor
    flat = tensor.reshape(-1)
    half = flat.numel() // 2
    return tensor.shape, flat[:half].clone(), flat[half:].clone()


def _unpack(packed):
    if torch.is_tensor(packed):
        return packed
    shape, first, second = packed
    return torch.cat([first, second]).view(shape)


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 6))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    model, x = nn.Sequential(*layers), torch.randn(rows, width)
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for step in range(3):
        steps.zero_grad()
        hooks = save_on_cpu() if step % 2 else saved_tensors_hooks(_pack, _unpack)
        with hooks:
            loss = (model(x) - x).square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
