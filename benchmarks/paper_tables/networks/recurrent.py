# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks, unrolled in time as the papers' frameworks did."""

import itertools
from collections.abc import Callable

import torch
from torch import nn

from .training import training_step


def lstm_language_model(
    batch: int, layers: int = 1, hidden: int = 1500, words: int = 10000, steps: int = 35
) -> Callable[[], None]:
    """The large Penn Treebank model (Zaremba et al. 2014), of 1 to 16 layers."""
    network = nn.ModuleDict(
        {
            "embedding": nn.Embedding(words, hidden),
            "lstm": nn.LSTM(hidden, hidden, layers),
            "output": nn.Linear(hidden, words),
        }
    )
    text = torch.zeros(steps, batch, dtype=torch.long)
    following = torch.zeros(steps * batch, dtype=torch.long)

    def loss() -> torch.Tensor:
        states, _ = network["lstm"](network["embedding"](text))
        scores = network["output"](states.flatten(0, 1))
        return nn.functional.cross_entropy(scores, following)

    return training_step(network, loss, momentum=0)


class DeepSpeech(nn.Module):
    """Three layers a frame, a bidirectional recurrence, one more layer (Hannun et al. 2014)."""

    def __init__(self, features: int, hidden: int, letters: int) -> None:
        super().__init__()
        widths = (features, hidden, hidden, hidden)
        self.frames = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.forwards = nn.RNNCell(hidden, hidden, nonlinearity="relu")
        self.backwards = nn.RNNCell(hidden, hidden, nonlinearity="relu")
        self.after = nn.Linear(hidden, hidden)
        self.letters = nn.Linear(hidden, letters)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        seen = []
        for frame in sound.unbind():
            for layer in self.frames:
                frame = nn.functional.hardtanh(layer(frame), 0.0, 20.0)
            seen.append(frame)
        ahead, behind = self._run(self.forwards, seen), self._run(self.backwards, seen[::-1])[::-1]
        scores = [
            self.letters(nn.functional.hardtanh(self.after(a + b), 0.0, 20.0))
            for a, b in zip(ahead, behind)
        ]
        return torch.stack(scores)

    @staticmethod
    def _run(cell: nn.RNNCell, frames: list[torch.Tensor]) -> list[torch.Tensor]:
        state, states = None, []
        for frame in frames:
            state = cell(frame, state)
            states.append(state)
        return states


def deep_speech(
    steps: int, batch: int = 128, hidden: int = 2048, features: int = 494, letters: int = 29
) -> Callable[[], None]:
    """`steps` frames of sound, unrolled."""
    network = DeepSpeech(features, hidden, letters)
    sound = torch.zeros(steps, batch, features)
    spoken = torch.zeros(steps * batch, dtype=torch.long)

    def loss() -> torch.Tensor:
        return nn.functional.cross_entropy(network(sound).flatten(0, 1), spoken)

    return training_step(network, loss)
