# SPDX-License-Identifier: Apache-2.0
"""Parts that the programs share: sizes, optimizers, and the shape of what they return."""

import torch

OPTIMIZERS = {
    "sgd": lambda params, lr: torch.optim.SGD(params, lr=lr, momentum=0.9, foreach=False),
    "adam_foreach": lambda params, lr: torch.optim.Adam(params, lr=lr * 0.1, foreach=True),
    "adamw_fused": lambda params, lr: torch.optim.AdamW(params, lr=lr * 0.1, fused=True),
}


def pick(size, *, tiny, full):
    """The value for this size."""
    return {"tiny": tiny, "full": full}[size]


def optimizer_for(name, params, lr=0.01):
    """One of the optimizers that differ in kind: a loop of small ops, _foreach_*, _fused_*."""
    return OPTIMIZERS[name or "sgd"](params, lr)


def outcome(losses, *modules, optimizer=None, **tensors):
    """Everything a run must reproduce: losses, last gradients, weights, buffers, optimizer state.

    Nothing is copied, so that returning a result adds no memory of its own.
    """
    gradients, weights = {}, {}
    for index, module in enumerate(modules):
        for name, parameter in module.named_parameters(remove_duplicate=False):
            weights[f"{index}.{name}"] = parameter.detach()
            if parameter.grad is not None:
                gradients[f"{index}.{name}"] = parameter.grad
        for name, buffer in module.named_buffers():
            weights[f"{index}.{name}"] = buffer
    state = {}
    for optimizer_index, one in enumerate([optimizer] if optimizer is not None else []):
        for key, entries in enumerate(one.state.values()):
            for name, value in entries.items():
                if torch.is_tensor(value):
                    state[f"{optimizer_index}.{key}.{name}"] = value
    return {
        "losses": list(losses),
        "gradients": gradients,
        "weights": weights,
        "state": state,
        "tensors": tensors,
    }


def train(model, batches, loss_of, optimizer, steps=3):
    """The plain loop: zero, forward, backward, step. Returns the losses as floats."""
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batches[step % len(batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
