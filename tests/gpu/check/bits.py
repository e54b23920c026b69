# SPDX-License-Identifier: Apache-2.0
"""Trains a network on the card and prints what came of it: bits.py NETWORK OPTIMIZER DTYPE."""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.device import digest_of, train_the_same_every_time

STEPS = 6  # three until a step is known, and three in which it is looked ahead
CLASSES = 16


class Cnn(nn.Module):
    """Convolutions and normalisation: activations of 4 to 16 MiB."""

    def __init__(self):
        super().__init__()
        layers, width = [], 16
        for wider in (64, 64, 128, 128):
            layers += [nn.Conv2d(width, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider)]
            layers.append(nn.ReLU())
            width = wider
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))

    @staticmethod
    def inputs(chance):
        return torch.randn(16, 16, 64, 64, generator=chance)


class Transformer(nn.Module):
    """Weights of 4 to 16 MiB and attention."""

    def __init__(self, width=1024, layers=3):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean(1))

    @staticmethod
    def inputs(chance):
        return torch.randn(8, 128, 1024, generator=chance)


class Lstm(nn.Module):
    """Fused recurrent cells: one op keeps what it needs for all steps of the sequence."""

    def __init__(self, width=1024):
        super().__init__()
        self.first, self.second = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.second(self.first(x)[0])[0][:, -1])

    @staticmethod
    def inputs(chance):
        return torch.randn(32, 64, 1024, generator=chance)


NETWORKS = {"cnn": Cnn, "transformer": Transformer, "lstm": Lstm}
OPTIMIZERS = {
    "sgd": lambda values: torch.optim.SGD(values, 0.01, momentum=0.9, foreach=False),
    "adam": lambda values: torch.optim.Adam(values, 1e-3, foreach=False),
    "adamw_fused": lambda values: torch.optim.AdamW(values, 1e-3, fused=True),
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def train(network, optimizer, dtype):
    torch.manual_seed(0)
    model = NETWORKS[network]().to("cuda", DTYPES[dtype])
    steps = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for step in range(STEPS):
        chance = torch.Generator().manual_seed(step)
        inputs = model.inputs(chance).to("cuda", DTYPES[dtype])
        targets = torch.randint(0, CLASSES, inputs.shape[:1], generator=chance).cuda()
        steps.zero_grad()
        loss = F.cross_entropy(model(inputs).float(), targets)
        loss.backward()
        steps.step()
        losses.append(loss.detach())
    state = [value for each in steps.state.values() for value in each.values()]
    return {
        "losses": [loss.item() for loss in losses],
        "digest": digest_of(*model.parameters(), *model.buffers(), *state),
        "peak": torch.cuda.memory_stats()["allocated_bytes.large_pool.peak"],
    }


if __name__ == "__main__":
    train_the_same_every_time()
    print(json.dumps(train(*sys.argv[1:])))
