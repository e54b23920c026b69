# SPDX-License-Identifier: Apache-2.0
"""Views of views of views: slices, transposes, as_strided, unfold, expand, written and read."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    rows, width, depth = pick(size, tiny=(8, 8, 2), full=(8192, 128, 6))
    flat = nn.Parameter(torch.randn(depth * (width * width + width)) * 0.05)
    steps = optimizer_for(optimizer, [flat])
    base = torch.randn(rows + 16, width)
    window = base[8:-8].t().t()  # keeps only a view of a view alive
    del base
    losses = []
    for _ in range(3):
        steps.zero_grad()
        x = window
        for piece in flat.view(depth, -1):
            weight, bias = piece[: width * width].view(width, width), piece[width * width :]
            y = torch.addmm(bias, x, weight.t())
            halves = y.view(rows, 2, width // 2).transpose(0, 1)
            y = torch.cat([halves[1], halves[0].tanh()], dim=1)
            x = y + x.as_strided((rows, width), (width, 1), x.storage_offset())
        pairs = x.unfold(1, 2, 2)
        loss = (pairs[..., 0] * pairs[..., 1].expand_as(pairs[..., 0])).mean() + x.square().mean()
        loss.backward()
        steps.step()
        with torch.no_grad():
            window[::2].narrow(1, 0, width // 2).mul_(0.99)
        losses.append(loss.item())
    result = outcome(losses, window=window)
    result["weights"], result["gradients"] = {"flat": flat.detach()}, {"flat": flat.grad}
    return result
