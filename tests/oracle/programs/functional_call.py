# SPDX-License-Identifier: Apache-2.0
"""A stateless training loop with torch.func: stacked ensemble, grad_and_value, no optimizer."""

import copy

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from tests.oracle.training import outcome, pick


def run(optimizer, size):
    members, rows, width = pick(size, tiny=(2, 6, 8), full=(8, 3000, 128))
    models = [
        nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        for _ in range(members)
    ]
    skeleton = copy.deepcopy(models[0]).to("meta")
    weights, buffers = stack_module_state(models)
    weights = {name: w.detach() for name, w in weights.items()}

    def loss_of(one, x):
        return (functional_call(skeleton, (one, buffers), (x,)) - x).square().mean()

    losses, x = [], torch.randn(rows, width)
    for _ in range(3):
        gradients, values = vmap(grad_and_value(loss_of), in_dims=(0, None))(weights, x)
        weights = {name: w - 0.1 * gradients[name] for name, w in weights.items()}
        losses += values.tolist()
    result = outcome(losses, *models)
    result["weights"], result["gradients"] = weights, gradients
    return result
