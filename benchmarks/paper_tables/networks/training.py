# SPDX-License-Identifier: Apache-2.0
"""The training step that all networks share: loss, gradients, stochastic gradient descent."""

from collections.abc import Callable

import torch


def training_step(
    network: torch.nn.Module, loss: Callable[[], torch.Tensor], momentum: float = 0.9
) -> Callable[[], None]:
    """A step that minimises `loss()` over the network's parameters."""
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.1, momentum=momentum, foreach=False, fused=False
    )

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def classification_step(
    network: torch.nn.Module, batch: int, image: tuple[int, ...], classes: int
) -> Callable[[], None]:
    """Images of that shape into that many classes."""
    images = torch.zeros(batch, *image)
    labels = torch.zeros(batch, dtype=torch.long)

    def loss() -> torch.Tensor:
        scores = network(images)
        # Inception and GoogLeNet have further outputs while training.
        main, *others = scores if isinstance(scores, tuple) else (scores,)
        total = torch.nn.functional.cross_entropy(main, labels)
        for other in others:
            total = total + 0.3 * torch.nn.functional.cross_entropy(other, labels)
        return total

    return training_step(network, loss)
