# SPDX-License-Identifier: Apache-2.0
"""Translation with additive attention (Bahdanau et al. 2015), 8 recurrent layers, unrolled."""

from collections.abc import Callable

import torch
from torch import nn

from .training import training_step


class AttentionTranslation(nn.Module):
    """Four layers read, four write; every word written looks at all words read."""

    def __init__(self, words: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.source = nn.Embedding(words, hidden)
        self.target = nn.Embedding(words, hidden)
        self.reader = nn.LSTM(hidden, hidden, layers)
        self.writer = nn.ModuleList(
            nn.LSTMCell(2 * hidden if layer == 0 else hidden, hidden) for layer in range(layers)
        )
        self.keys = nn.Linear(hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.weight = nn.Linear(hidden, 1, bias=False)
        self.output = nn.Linear(2 * hidden, words)

    def attend(self, state: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        # The sum of keys and query is the tensor of steps x batch x hidden for every word written
        # that fills the memory.
        scores = self.weight(torch.tanh(keys + self.query(state)))
        return (torch.softmax(scores, dim=0) * values).sum(0)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        values, _ = self.reader(self.source(source))
        keys = self.keys(values)
        written = self.target(target)
        states = [(values[-1], values[-1]) for _ in self.writer]
        context = values[-1]
        outputs = []
        for word in written.unbind():
            below = torch.cat([word, context], dim=1)
            for layer, cell in enumerate(self.writer):
                states[layer] = cell(below, states[layer])
                below = states[layer][0]
            context = self.attend(below, keys, values)
            outputs.append(torch.cat([below, context], dim=1))
        return self.output(torch.stack(outputs))


def attention_translation(
    batch: int, steps: int = 50, hidden: int = 512, words: int = 10000, layers: int = 4
) -> Callable[[], None]:
    """Sentences of `steps` words on both sides."""
    network = AttentionTranslation(words, hidden, layers)
    source = torch.zeros(steps, batch, dtype=torch.long)
    target = torch.zeros(steps, batch, dtype=torch.long)

    def loss() -> torch.Tensor:
        scores = network(source, target)
        return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())

    return training_step(network, loss, momentum=0)
