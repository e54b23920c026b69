# SPDX-License-Identifier: Apache-2.0
"""Weights in CPU memory that the program page-locks itself, so that the card copies straight from
their pages while other tensors come and go."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import outcome, pick


def _register(tensors):
    if DEVICE == "cuda":
        for tensor in tensors:
            result = torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0)
            assert int(result) == 0, result


def _unregister(tensors):
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        for tensor in tensors:
            assert int(torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr())) == 0


def run(optimizer_name, size):
    train_the_same_every_time()
    width = pick(size, tiny=64, full=1024)
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)).to(DEVICE)
    stored = [p.detach().cpu().clone() for p in model.parameters()]
    _register(stored)
    batch = torch.randn(64, width)
    losses = []
    for _ in range(4):
        with torch.no_grad():
            for own, kept in zip(model.parameters(), stored):
                own.copy_(kept, non_blocking=True)
        model.zero_grad()
        loss = model(batch.to(DEVICE)).square().mean()
        loss.backward()
        others = [torch.randn(width, width) for _ in range(12)]  # what wants their place
        sum(other.sum() for other in others)
        with torch.no_grad():
            for own, kept in zip(model.parameters(), stored):
                own.sub_(0.05 * own.grad)
                kept.copy_(own, non_blocking=True)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        losses.append(loss.item())
    _unregister(stored)
    return outcome(losses, model, **{f"stored{index}": kept for index, kept in enumerate(stored)})
