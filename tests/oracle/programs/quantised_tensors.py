# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors: activations kept for backward as quint8, evaluation by quantised kernels."""

import warnings

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick

ACTIVATION = {"scale": 0.04, "zero_point": 3}


class CompressedLinear(torch.autograd.Function):
    """A linear layer that remembers its input in a byte per value."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        kept = torch.quantize_per_tensor(
            x, ACTIVATION["scale"], ACTIVATION["zero_point"], torch.quint8
        )
        ctx.save_for_backward(kept, weight)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        kept, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ kept.dequantize(), gradient.sum(0)


def _channels(weight):
    """The weight with a scale per row, as quantised kernels take it."""
    scales = weight.abs().amax(1) / 127
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    return torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)


@torch.no_grad()
def _evaluate(layers, x):
    """The network in integers, from weights packed anew; some of the kept results are views."""
    q = torch.quantize_per_tensor(x, ACTIVATION["scale"], 128, torch.quint8)
    kept, weights = [], []
    for number, layer in enumerate(layers):
        # The object keeps a bias as it is; of one with gaps it makes a copy.
        bias = layer.bias if number % 2 else layer.bias.repeat_interleave(2)[::2]
        weights.append(_channels(layer.weight))
        packed = torch.ops.quantized.linear_prepack(weights[-1], bias)
        q = torch.ops.quantized.linear_relu(q, packed, 0.02, 0)
        kept.append(q[::2])
    rows = torch.cat([k.dequantize() for k in kept])
    scales = torch.cat([w.q_per_channel_scales() for w in weights]).sum().float()
    rows[0] += scales + torch.cat([w.dequantize() for w in weights]).sum()
    return (rows.mean() + q.int_repr().float().std() + q.clone().dequantize()[:, 0].sum()).item()


def run(optimizer, size):
    warnings.filterwarnings("ignore", message=".*quantized tensor creation functions.*")
    rows, width, depth = pick(size, tiny=(32, 16, 2), full=(16384, 192, 8))
    layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
    x, y = torch.randn(rows, width), torch.randn(rows, width)
    steps = optimizer_for(optimizer, layers.parameters())
    losses = []
    for _ in range(3):
        steps.zero_grad()
        h = x
        for layer in layers:
            h = CompressedLinear.apply(h, layer.weight, layer.bias).relu()
        loss = nn.functional.mse_loss(h, y)
        loss.backward()
        steps.step()
        losses += [loss.item(), _evaluate(layers, x)]
    return outcome(losses, layers, optimizer=steps)
