# SPDX-License-Identifier: Apache-2.0
"""Per-sample gradients by vmap(grad), a directional derivative by jvp, differentially private
clipping and an update by hand."""

import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap

from tests.oracle.training import outcome, pick


def run(optimizer, size):
    batch, width, depth = pick(size, tiny=(4, 8, 1), full=(192, 160, 4))
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(width, 4))
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss_of(parameters, x, label):
        logits = functional_call(model, parameters, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(logits, label.unsqueeze(0))

    losses = []
    for _ in range(3):
        x, labels = torch.randn(batch, width), torch.randint(4, (batch,))
        each = vmap(grad(loss_of), in_dims=(None, 0, 0))(weights, x, labels)
        norms = torch.sqrt(sum(g.flatten(1).square().sum(dim=1) for g in each.values()))
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        mean = {n: torch.einsum("b,b...->...", scale, g) / batch for n, g in each.items()}
        loss, slope = jvp(
            lambda w, x=x, labels=labels: vmap(loss_of, in_dims=(None, 0, 0))(w, x, labels).mean(),
            (weights,),
            (mean,),
        )
        weights = {name: w - 0.1 * mean[name] for name, w in weights.items()}
        losses += [loss.item(), slope.item()]
    result = outcome(losses, model)
    result["weights"] = weights
    result["gradients"] = each
    return result
