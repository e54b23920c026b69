# SPDX-License-Identifier: Apache-2.0
"""Forward, pre-forward, backward, tensor and post-accumulate hooks that look and change."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _clamp(parameter):
    parameter.grad.clamp_(-1, 1)


def _attach(model, seen):
    kept = {}
    for name, layer in model.named_children():
        if isinstance(layer, nn.Linear):
            layer.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 1.01,))
            layer.register_forward_hook(lambda _, __, out, name=name: kept.update({name: out}))
            layer.register_full_backward_hook(
                lambda _, inputs, outputs: seen.append(outputs[0].norm().item())
            )
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)
        parameter.register_post_accumulate_grad_hook(_clamp)
    return kept


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 192, 6))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers)
    seen = []
    kept = _attach(model, seen)
    steps = optimizer_for(optimizer, model.parameters())
    x, losses = torch.randn(rows, width), []
    for _ in range(3):
        steps.zero_grad()
        out = model(x)
        out.register_hook(lambda gradient: gradient + 1e-6)
        loss = out.square().mean() + sum(k.abs().mean() for k in kept.values())
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses + seen, model, optimizer=steps)
