# SPDX-License-Identifier: Apache-2.0
"""The recorder is told what tensors are for, whichever threads train."""

import torch
from torch import nn

from spillway.recording.watch import Watch


class Told:
    """What the library is told: the roles and names of storages."""

    def __init__(self) -> None:
        self.storages: list[tuple[str, str]] = []

    def record_storage(self, storage, role: str, name: str) -> None:
        self.storages.append((role, name))

    def record_module(self, name: str) -> None:
        pass


def test_an_optimizer_describes_its_own_gradients_alone():
    """Another thread may be writing those of others, in a backward pass of its own."""
    told = Told()
    watch = Watch(told)
    watch.with_data = True
    watch.install()
    try:
        models = [nn.Linear(3, 2), nn.Linear(3, 2)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        for model in models:
            model(torch.ones(1, 3)).sum().backward()
        optimizers[1].step()
        told.storages.clear()
        optimizers[0].step()
    finally:
        watch.remove()
    gradients = [name for role, name in told.storages if role == "gradient"]
    assert sorted(gradients) == ["bias.grad", "weight.grad"]
