# SPDX-License-Identifier: Apache-2.0
"""The network that the fault tests train: little to compute, some 40 MiB at its peak."""

import hashlib
import json

import torch
from torch import nn

WIDTH = 512
DEPTH = 8
BATCH = 64
BUDGET = "12MiB"  # some 30 % of the peak: much has to move in every step
MIB = 1 << 20


class Training:
    """A model, its optimizer and its data, made from a seed."""

    def __init__(self, seed=1, batch=BATCH, depth=DEPTH):
        self._generator = torch.Generator().manual_seed(seed)
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
        self.model = nn.Sequential(*layers)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.normal_(0, WIDTH**-0.5, generator=self._generator)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.x = torch.randn(batch, WIDTH, generator=self._generator)
        self.losses = []

    def step(self):
        """One training step. Losses are kept as floats."""
        self.optimizer.zero_grad()
        loss = (self.model(self.x) - self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return self

    def steps(self, count):
        for _ in range(count):
            self.step()
        return self

    def tensors(self):
        """Parameters, gradients and optimizer state."""
        for parameter in self.model.parameters():
            yield parameter.detach()
            if parameter.grad is not None:
                yield parameter.grad
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if torch.is_tensor(value))

    def outcome(self):
        """Losses, and a digest of all tensors: equal only if every bit is."""
        parts = "".join(digest(tensor) for tensor in self.tensors())
        return [[loss.hex() for loss in self.losses], hashlib.sha256(parts.encode()).hexdigest()]


def digest(tensor):
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


def train(steps=3, **options):
    return Training(**options).steps(steps).outcome()


def moved_bytes():
    """Evicted and fetched so far."""
    import spillway

    stats = spillway.stats()
    return stats.evicted_bytes + stats.clean_evicted_bytes + stats.fetched_bytes


def require_budget_held():
    """The peak stayed within the budget, and something had to move for that."""
    import spillway

    stats = spillway.stats()
    assert stats.peak_device_bytes <= stats.budget_bytes, stats
    assert stats.overshoot_bytes == 0, stats
    assert stats.evictions > 0, stats
    return stats


if __name__ == "__main__":
    print(json.dumps(train(2)))
