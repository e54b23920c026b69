# SPDX-License-Identifier: Apache-2.0
"""Weights train on the card; their master copies and the optimizer's state lie in CPU memory, and
gradients come there through a page-locked buffer or without one."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer_name, size):
    train_the_same_every_time()
    width, depth = pick(size, tiny=(32, 3), full=(1024, 8))
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])
    masters = [p.detach().clone().requires_grad_() for p in model.parameters()]
    model = model.to(DEVICE)
    optimizer = optimizer_for(optimizer_name, masters)
    batch = torch.randn(64, width)
    locked = [torch.empty(p.shape, pin_memory=DEVICE == "cuda") for p in masters]
    losses = []
    for step in range(4):
        model.zero_grad()
        loss = model(batch.to(DEVICE)).square().mean()
        loss.backward()
        for master, buffer, own in zip(masters, locked, model.parameters()):
            if step % 2:
                buffer.copy_(own.grad, non_blocking=True)
            master.grad = torch.empty_like(master)
            if step % 2 == 0:
                master.grad.copy_(own.grad, non_blocking=True)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        if step % 2:
            for master, buffer in zip(masters, locked):
                master.grad.copy_(buffer)
        optimizer.step()
        with torch.no_grad():
            for master, own in zip(masters, model.parameters()):
                own.copy_(master, non_blocking=True)
        losses.append(loss.item())
    kept = {f"master{index}": master.detach() for index, master in enumerate(masters)}
    return outcome(losses, model, optimizer=optimizer, **kept)
