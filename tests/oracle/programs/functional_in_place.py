# SPDX-License-Identifier: Apache-2.0
"""Transforms of functions that write in place: nested grad, vmap, jacrev and jvp."""

import torch
from torch import func

from tests.oracle.training import outcome, pick


def _energy(weights, x):
    """Sums what it has written into new memory: whole, through a view, by index."""
    hidden = torch.tanh(x @ weights["in"])
    total = hidden.new_zeros(hidden.shape)
    total.add_(1).narrow(0, 0, hidden.shape[0] // 2).fill_(0.5)
    rows = hidden.new_zeros(hidden.shape[0])
    rows[1:].add_(2)
    kept = hidden.clone().mul_(total)
    kept[0].sub_(kept[1])
    return (kept * total).square().mean() + (rows * hidden.sum(1)).mean() * 1e-2


def _per_sample(weights, x):
    ones = x.new_zeros(x.shape)
    ones.fill_(1)
    return (torch.tanh(x @ weights["in"]) @ weights["out"]).sum() + (ones * x).sum() * 1e-3


def run(_, size):
    rows, width = pick(size, tiny=(16, 8), full=(16384, 192))
    few = pick(size, tiny=6, full=96)
    weights = {"in": torch.randn(width, width) * 0.1, "out": torch.randn(width, 1)}
    x = torch.randn(rows, width)
    losses = []
    for _ in range(3):
        gradients, loss = func.grad_and_value(_energy)(weights, x)
        _, tangent = func.jvp(lambda w: _energy(w, x), (weights,), (gradients,))
        each = func.vmap(func.grad(_per_sample), (None, 0))(weights, x[:few, None])
        curvature = func.jacrev(func.jacrev(lambda z: z.sin().mul_(z).sum()))(x[0, :few])
        for name, weight in weights.items():
            step = gradients[name] + each[name].mean(0) * 1e-2
            weight.sub_(step, alpha=0.1)
        losses += [loss.item(), tangent.item(), curvature.diagonal().sum().item()]
    result = outcome(losses)
    result["weights"], result["gradients"] = weights, gradients
    return result
