# SPDX-License-Identifier: Apache-2.0
"""Fourier neural operator: complex weights, rfft2/irfft2, view_as_real, conjugation."""

import torch
from torch import nn

from tests.oracle.training import optimizer_for, outcome, pick, train


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.local = nn.Conv2d(width, width, 1)

    def forward(self, x):
        spectrum = torch.fft.rfft2(x)
        kept = spectrum[..., : self.modes, : self.modes]
        mixed = torch.einsum("bixy,ioxy->boxy", kept.conj(), torch.view_as_complex(self.weight))
        full = torch.zeros_like(spectrum)
        full[..., : self.modes, : self.modes] = mixed
        return x + torch.nn.functional.gelu(torch.fft.irfft2(full, s=x.shape[-2:]) + self.local(x))


def run(optimizer, size):
    batch, width, side, layers = pick(size, tiny=(2, 4, 8, 1), full=(24, 12, 64, 7))
    model = nn.Sequential(
        nn.Conv2d(1, width, 1), *(Spectral(width, 4) for _ in range(layers)), nn.Conv2d(width, 1, 1)
    )
    x = torch.randn(batch, 1, side, side)
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [x], lambda m, b: (m(b) - b.roll(1, -1)).square().mean(), steps)
    return outcome(losses, model, optimizer=steps)
