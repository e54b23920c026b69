# SPDX-License-Identifier: Apache-2.0
"""Trains a network on the card: python -m tests.gpu.card_training NAME [OPTIMIZER]. Prints as JSON
the losses, a digest of weights and optimizer state, and the most that torch said it had allocated.

Its tensors are whole multiples of the card's pages of 2 MiB, so that no rounding hides what moves.
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.device import digest_of, train_the_same_every_time

STEPS = 4


def perceptron():
    layers = [layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(1024, 10)), (512, 1024)


def convolutions():
    layers, width = [], 3
    for wider in (32, 32, 64, 64):
        layers += [nn.Conv2d(width, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider)]
        layers.append(nn.ReLU())
        width = wider
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(*layers), (16, 3, 32, 32)


NETWORKS = {"perceptron": perceptron, "convolutions": convolutions}
# One tensor after the other; in lists, as PyTorch does on a card by default; fused lists.
OPTIMIZERS = {
    "single": lambda values: torch.optim.AdamW(values, 1e-3, foreach=False),
    "lists": lambda values: torch.optim.AdamW(values, 1e-3),
    "fused": lambda values: torch.optim.AdamW(values, 1e-3, fused=True),
    "momentum": lambda values: torch.optim.SGD(values, 0.01, momentum=0.9),
}


def train(name, chosen="single", before_step=lambda step: None):
    torch.manual_seed(0)
    network, shape = NETWORKS[name]()
    network = network.cuda()
    optimizer = OPTIMIZERS[chosen](network.parameters())
    losses = []
    for step in range(STEPS):
        before_step(step)
        chance = torch.Generator().manual_seed(step)
        inputs = torch.randn(shape, generator=chance).cuda()
        targets = torch.randint(0, 10, shape[:1], generator=chance).cuda()
        optimizer.zero_grad()
        loss = F.cross_entropy(network(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    state = [value for each in optimizer.state.values() for value in each.values()]
    return {
        "losses": [loss.item() for loss in losses],
        "digest": digest_of(*network.parameters(), *network.buffers(), *state),
        "peak": torch.cuda.max_memory_allocated(),
    }


if __name__ == "__main__":
    train_the_same_every_time()
    print(json.dumps(train(*sys.argv[1:])))
