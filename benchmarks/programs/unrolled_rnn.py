# SPDX-License-Identifier: Apache-2.0
"""A recurrent network unrolled over a sequence, batch 64, SGD: the memory grows with its length."""

import torch
from torch import nn
from torch.nn import functional
from training import options, train


class Unrolled(nn.Module):
    def __init__(self, inputs, width, classes):
        super().__init__()
        self.cell = nn.LSTMCell(inputs, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        state, outputs = None, []
        for moment in x:
            state = self.cell(moment, state)
            outputs.append(self.head(state[0]))
        return torch.stack(outputs)


def main():
    chosen = options(__doc__, size=50, batch=64, width=512, inputs=64, classes=32)
    model = Unrolled(chosen.inputs, chosen.width, chosen.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sound = torch.randn(chosen.size, chosen.batch, chosen.inputs)
    letters = torch.randint(chosen.classes, (chosen.size * chosen.batch,))
    train(
        model, optimizer,
        lambda: functional.cross_entropy(model(sound).flatten(0, 1), letters), chosen.steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
