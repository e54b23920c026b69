# SPDX-License-Identifier: Apache-2.0
"""Small programs whose steps are recorded. Each builder makes its model and returns the step."""

import torch
from torch import nn

CPU = torch.device("cpu")


class Block(nn.Module):
    """Two paths that join, so that backward adds gradients."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu_(self.norm2(self.conv2(y)) + x)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(16) for _ in range(3)))
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(16 * 64, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.blocks(self.stem(x)), 2)
        return self.head(self.drop(x.flatten(1)))


class Transformer(nn.Module):
    def __init__(self, words=50, width=64, layers=3, inner=128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, inner, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.layers(self.embedding(x)))


def _step(model, optimizer, inputs, labels):
    def step():
        optimizer.zero_grad()
        scores = model(inputs)
        nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten()).backward()
        optimizer.step()

    step.optimizer = optimizer
    return step


def cnn(optimizer="sgd"):
    model = Cnn()
    return _step(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        torch.zeros(8, 3, 16, 16),
        torch.zeros(8, dtype=torch.long),
    )


def transformer(optimizer="adam"):
    model = Transformer()
    words = torch.zeros(8, 12, dtype=torch.long)
    return _step(model, OPTIMIZERS[optimizer](model.parameters()), words, words)


def lstm():
    model = nn.ModuleDict({"lstm": nn.LSTM(16, 16), "head": nn.Linear(16, 4)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sound, labels = torch.zeros(6, 3, 16), torch.zeros(18, dtype=torch.long)

    def step():
        optimizer.zero_grad()
        scores = model["head"](model["lstm"](sound)[0])
        nn.functional.cross_entropy(scores.flatten(0, 1), labels).backward()
        optimizer.step()

    return step


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, foreach=False),
    "adam_foreach": lambda p: torch.optim.Adam(p, foreach=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, fused=True),
}
