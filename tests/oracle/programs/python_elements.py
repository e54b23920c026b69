# SPDX-License-Identifier: Apache-2.0
"""Accesses of Python element by element or byte by byte, between the ops that train."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _scaled_by_python(batch):
    """Some rows in place, by a function called for each element; one such runs ops of its own."""
    x = batch[:128].clone()
    other = x * 2
    x.sum()  # clean copies of both are about
    x.map_(other, lambda a, b: a + 0.5 * b)
    x.apply_(lambda a: a * 0.25)
    if hasattr(x, "map2_"):
        x.map2_(other, other, lambda a, b, c: a + b - c)
    few = x[:2, :2].clone()
    few.apply_(lambda a: float(torch.ones(64).sum()) / 64 + a)
    x[:2, :2] = few
    batch[:128] = x
    return batch


def _byte_order_turned(x):
    turned = x.clone()
    turned.sum()
    turned.untyped_storage().byteswap(torch.float32)
    turned.add(0)
    turned.untyped_storage().byteswap(torch.float32)
    return turned


def _written_through_a_slice(x):
    copy = x.clone()
    half = copy.untyped_storage()[: copy.nbytes // 2]
    copy.sum()
    half.fill_(0)
    copy.sum()
    part = torch.empty(0).set_(half)
    part.add_(1)
    return copy, torch.tensor(list(bytes(half[:16])))


def run(optimizer, size):
    rows, width = pick(size, tiny=(8, 8), full=(8192, 256))
    model = nn.Linear(width, width)
    steps = optimizer_for(optimizer, model.parameters())
    x = torch.randn(rows, width)
    losses = []
    for _ in range(3):
        steps.zero_grad()
        y = model(_scaled_by_python(x.clone()))
        loss = (y + _byte_order_turned(x)).square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    rows = list(y.detach())
    sums = torch.tensor([[row.sum(), row.max()] for row in rows])
    old_way = torch.Tensor([row.min() for row in rows])
    copy, start = _written_through_a_slice(x)
    return outcome(losses, model, optimizer=steps, sums=sums, least=old_way, copy=copy, start=start)
