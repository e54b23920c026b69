# SPDX-License-Identifier: Apache-2.0
"""Learning to learn: an inner gradient step whose own gradient trains the outer parameters, and
a Hessian-vector product."""

import torch
from torch import nn
from torch.func import functional_call

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, tasks = pick(size, tiny=(8, 8, 2), full=(6000, 160, 3))
    model = nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
    )
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        steps.zero_grad()
        total = torch.zeros(())
        for _ in range(tasks):
            x, y = torch.randn(rows, width), torch.randn(rows, 1)
            weights = dict(model.named_parameters())
            inner = nn.functional.mse_loss(functional_call(model, weights, (x,)), y)
            gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            fast = {
                name: weight - 0.1 * gradient
                for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
            }
            total = total + nn.functional.mse_loss(functional_call(model, fast, (x,)), y)
        total.backward()
        steps.step()
        losses.append(total.item())
    loss = model(x).square().mean()
    parameters = list(model.parameters())
    first = torch.autograd.grad(loss, parameters, create_graph=True)
    product = torch.autograd.grad(sum((g * g.detach()).sum() for g in first), parameters)
    hessian_vector = {f"hvp{index}": p for index, p in enumerate(product)}
    return outcome(losses, model, optimizer=steps, **hessian_vector)
