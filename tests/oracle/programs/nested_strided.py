# SPDX-License-Identifier: Apache-2.0
"""Strided nested tensors: attention over sequences of unequal length, and their sizes."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, longest, width = pick(size, tiny=(3, 6, 16), full=(48, 160, 128))
    heads = 4
    layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
    norm = nn.LayerNorm(width)
    steps = optimizer_for(optimizer, [*layers.parameters(), *norm.parameters()])
    lengths = torch.randint(longest // 2, longest, (batch,)).tolist()
    nested = torch.nested.nested_tensor([torch.randn(length, width) for length in lengths])
    losses = []
    for _ in range(3):
        steps.zero_grad()
        y = nested
        for layer in layers:
            y = F.gelu(layer(norm(y))) + y
        loss = torch.nested.to_padded_tensor(y, 0.0).square().mean()
        loss.backward()
        steps.step()
        losses.append(loss.item())
        losses.append(nested.size(2))
    with torch.no_grad():
        few = torch.nested.nested_tensor(list(nested.unbind()[:8]))  # attention is one frame
        split = layer(few).reshape(few.size(0), -1, heads, width // heads)
        split = split.transpose(1, 2).contiguous()
        attended = F.scaled_dot_product_attention(split, split, split)
        products = torch.bmm(nested, nested.transpose(1, 2))
    parts = torch.cat([part.flatten() for part in (*attended.unbind(), *products.unbind())])
    return outcome(losses, layers, norm, optimizer=steps, parts=parts, soft=nested.softmax(-1)[1])
