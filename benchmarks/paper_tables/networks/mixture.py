# SPDX-License-Identifier: Apache-2.0
"""Transformer with a mixture of experts (Shazeer et al. 2017), for translation.

The sizes are chosen so that 12 experts make 0.66e9 parameters and 48 make 2.5e9, as TensorFlowMem
states. Experts take a fixed number of words each, so that shapes do not depend on values.
"""

from collections.abc import Callable

import torch
from torch import nn

from .training import training_step


class Experts(nn.Module):
    """Every expert takes the words that its gate ranks highest."""

    def __init__(self, width: int, inner: int, experts: int, per_word: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
            for _ in range(experts)
        )
        self.per_word = per_word

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = x.flatten(0, 1)
        chances = torch.softmax(self.gate(words), dim=1)
        capacity = max(1, words.shape[0] * self.per_word // len(self.experts))
        weights, chosen = torch.topk(chances.t(), capacity, dim=1)
        result = torch.zeros_like(words)
        for expert, layer in enumerate(self.experts):
            answers = layer(words[chosen[expert]]) * weights[expert].unsqueeze(1)
            result = result.index_add(0, chosen[expert], answers)
        return result.view_as(x)


class Reader(nn.TransformerEncoderLayer):
    """The ordinary layer, without dropout."""

    def __init__(self, width: int, inner: int, heads: int = 8) -> None:
        super().__init__(width, heads, inner, dropout=0.0, batch_first=True)


class Writer(nn.Module):
    """Attention to what was written and to what was read, then the experts."""

    def __init__(self, width: int, inner: int, experts: int, per_word: int) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(width, 8, batch_first=True)
        self.across = nn.MultiheadAttention(width, 8, batch_first=True)
        self.experts = Experts(width, inner, experts, per_word)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        x = self.norms[0](x + self.own(x, x, x, need_weights=False)[0])
        x = self.norms[1](x + self.across(x, read, read, need_weights=False)[0])
        return self.norms[2](x + self.experts(x))


def mixture_of_experts(
    experts: int, batch: int = 8, steps: int = 32, width: int = 512, words: int = 32000
) -> Callable[[], None]:
    """`batch` pairs of sentences; 12 experts make 0.66e9 parameters, 48 make 2.5e9."""
    network = nn.ModuleDict(
        {
            "embedding": nn.Embedding(words, width),
            "readers": nn.ModuleList(Reader(width, 2048) for _ in range(6)),
            "writers": nn.ModuleList(Writer(width, 8192, experts, 4) for _ in range(6)),
        }
    )
    source = torch.zeros(batch, steps, dtype=torch.long)
    target = torch.zeros(batch, steps, dtype=torch.long)

    def loss() -> torch.Tensor:
        read = network["embedding"](source)
        for layer in network["readers"]:
            read = layer(read)
        x = network["embedding"](target)
        for layer in network["writers"]:
            x = layer(x, read)
        scores = nn.functional.linear(x, network["embedding"].weight)
        return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())

    return training_step(network, loss, momentum=0)
