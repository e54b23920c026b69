# SPDX-License-Identifier: Apache-2.0
"""Generator against discriminator: two optimizers, gradients that flow through both."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick


def _generator(width):
    return nn.Sequential(
        nn.Linear(32, width * 4 * 8 * 8),
        nn.Unflatten(1, (width * 4, 8, 8)),
        nn.ConvTranspose2d(width * 4, width * 2, 4, 2, 1),
        nn.BatchNorm2d(width * 2),
        nn.ReLU(),
        nn.ConvTranspose2d(width * 2, width, 4, 2, 1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 3, 3, padding=1),
        nn.Tanh(),
    )


def _discriminator(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, width * 2, 4, 2, 1),
        nn.InstanceNorm2d(width * 2, affine=True),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width * 2, width * 2, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(width * 2 * 64, 1),
    )


def run(optimizer, size):
    batch, width = pick(size, tiny=(2, 2), full=(64, 24))
    generator, discriminator = _generator(width), _discriminator(width)
    generator_steps = optimizer_for(optimizer, generator.parameters())
    discriminator_steps = optimizer_for(optimizer, discriminator.parameters())
    score = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(batch, 1), torch.zeros(batch, 1)
    losses = []
    for _ in range(3):
        real = torch.randn(batch, 3, 32, 32)
        fake = generator(torch.randn(batch, 32))
        discriminator_steps.zero_grad()
        loss = score(discriminator(real), ones) + score(discriminator(fake.detach()), zeros)
        loss.backward()
        discriminator_steps.step()
        generator_steps.zero_grad()
        fooled = score(discriminator(fake), ones)
        fooled.backward()
        generator_steps.step()
        losses += [loss.item(), fooled.item()]
    return outcome(losses, generator, discriminator, optimizer=generator_steps)
