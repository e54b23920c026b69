# SPDX-License-Identifier: Apache-2.0
"""A multi-layer perceptron, 4 x 256, batch 64: so small that the time goes into launching ops."""

import torch
from torch import nn
from training import options, train


def main():
    chosen = options(__doc__, steps=500, size=256, batch=64, layers=4)
    layers = [nn.Linear(chosen.size, chosen.size) for _ in range(chosen.layers)]
    model = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    inputs, targets = torch.randn(2, chosen.batch, chosen.size)
    loss = nn.MSELoss()
    train(model, optimizer, lambda: loss(model(inputs), targets), chosen.steps)


if __name__ == "__main__":
    main()
