# SPDX-License-Identifier: Apache-2.0
"""Programs whose tensors can be dropped and made again, each with something that may go wrong.

    python tests.oracle.recomputed.py NAME REPORT

writes a digest of all that the program computed, equal only if every bit is, and what Spillway
counted, if it is managed.
"""

import contextlib
import hashlib
import json
import os
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 5


class Digest:
    def __init__(self):
        self._hash = hashlib.sha256()

    def add(self, *tensors):
        for tensor in tensors:
            self._hash.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes())

    def text(self):
        return self._hash.hexdigest()


def train(model, make_input, digest, steps=STEPS):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(make_input()).square().mean()
        loss.backward()
        optimizer.step()
        digest.add(loss.view(1))
    digest.add(*model.state_dict().values())


def transformer(digest):
    """Scores and sums of attention die before what is made from them leaves."""

    class Block(nn.Module):
        def __init__(self, width=128, heads=4):
            super().__init__()
            self.heads = heads
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            split = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1)
            q, k, v = split.permute(2, 0, 3, 1, 4)
            mask = torch.ones(length, length).triu(1) * -1e9
            weights = torch.softmax(q @ k.transpose(-1, -2) / 8 + mask, -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.second(x))))

    model = nn.Sequential(*(Block() for _ in range(4)))
    train(model, lambda: torch.randn(4, 128, 128), digest)


def convolutions(digest):
    """Batch normalisation updates statistics when it runs, and activations overwrite its result."""
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    for _ in range(4):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    train(nn.Sequential(*layers), lambda: torch.randn(8, 3, 48, 48), digest)


def half(digest):
    """Autocast calls ops again with other inputs than the program's."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(512, 512)).float().square().mean()
        loss.backward()
        optimizer.step()
        digest.add(loss.view(1))
    digest.add(*model.state_dict().values())


def written_sources(digest):
    """What results were made from is written while they are dropped: weights, small and large."""
    large, small = torch.randn(512, 512), torch.randn(512)
    kept = []
    for step in range(STEPS):
        kept += [F.layer_norm(large + i, (512,), small, small) * large for i in range(2)]
        digest.add(*[torch.randn(512, 512) + i for i in range(12)])
        large.mul_(0.5)
        small.add_(1)
        large[step] = 7.0
    digest.add(*kept, large, small)


def exported_sources(digest):
    """numpy writes what a result was made from."""
    source, small = torch.randn(512, 512), torch.randn(512)
    results = [torch.sin(source) * small for _ in range(4)]
    fill = [torch.randn(512, 512) + i for i in range(12)]
    source.numpy()[:] = 3.0
    small.numpy()[:] = 5.0
    results += [torch.cos(source) * small for _ in range(4)]
    source.numpy()[:] = 4.0
    fill += [torch.randn(512, 512) + i for i in range(12)]
    digest.add(*results, source, *fill)


def changed_settings(digest):
    """What the bits or the type of results depend on, beside the inputs, changes in between."""
    source, whole = torch.randn(513, 1023), torch.arange(513 * 1023).reshape(513, 1023)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    results = [torch.softmax(source * i, -1) for i in range(4)]
    results += [source * 1e-38 * i for i in range(2)] + [whole / i for i in (3, 7)]
    torch.set_num_threads(2)
    torch.set_flush_denormal(False)
    torch.set_default_dtype(torch.float64)
    fill = [torch.randn(513, 1023, dtype=torch.float32) + i for i in range(12)]
    digest.add(*results, *fill)


def failing_ops(digest):
    """Ops that raise have made nothing, and overwritten nothing."""
    weight, other = nn.Parameter(torch.randn(512, 512) * 0.02), torch.randn(512, 512)
    results = []
    for i in range(4):
        for target, factor in ((weight, 2), (other, torch.randn(3))):
            with contextlib.suppress(RuntimeError):
                target.mul_(factor)
        other = other + i
        results += [torch.sin(other) for _ in range(2)]
        digest.add(*[torch.randn(512, 512) + i for i in range(12)])
    digest.add(weight, other, *results)


def foreign_memory(digest):
    """numpy's memory is written by no op."""
    array = numpy.ones(512, numpy.float32)
    shared, large = torch.from_numpy(array), torch.randn(512, 512)
    results = []
    for i in range(4):
        results.append(large * shared)
        array[:] = i
    fill = [torch.randn(512, 512) + i for i in range(12)]
    digest.add(*results, *fill)


def written_while_off(digest):
    """Between two sessions ops are not seen."""
    source = torch.randn(512, 512) + 1
    results = [torch.sin(source) for _ in range(4)]
    budget = os.environ.get("SPILLWAY_BUDGET")
    if budget:
        import spillway

        spillway.disable()
    source.mul_(2)
    results[0].add_(1)
    if budget:
        spillway.enable(budget=budget, mode=os.environ.get("SPILLWAY_MODE", "enforce"))
    fill = [torch.randn(512, 512) + i for i in range(12)]
    digest.add(*results, source, *fill)
    later = [torch.cos(source) for _ in range(4)]
    fill = [torch.randn(512, 512) + i for i in range(12)]
    digest.add(*later, *fill)


def recurrent(digest):
    """Each state is made from the last one: no chain may go back to the first."""
    start = torch.zeros(512, 256, requires_grad=True)
    state, states = start, []
    for _ in range(24):
        state = torch.sigmoid(state + 1) * 0.9
        states.append(state)
    sum(state.square().mean() for state in states).backward()
    digest.add(*states, start.grad)


def views_and_lists(digest):
    """Slices are written, and lists are read."""
    sources = [torch.randn(256, 256) for _ in range(4)]
    results = []
    for i in range(6):
        whole = torch.cat([source * i for source in sources])
        whole[64:128].sigmoid_()
        whole.t()[: 16 * i].mul_(2)
        results.append(whole)
    fill = [torch.randn(512, 512) + i for i in range(12)]
    digest.add(*results, *fill)


PROGRAMS = {
    function.__name__: function
    for function in (
        transformer,
        convolutions,
        half,
        written_sources,
        exported_sources,
        changed_settings,
        failing_ops,
        foreign_memory,
        written_while_off,
        recurrent,
        views_and_lists,
    )
}


def main():
    name, report = sys.argv[1:]
    torch.manual_seed(0)
    digest = Digest()
    PROGRAMS[name](digest)
    counted = {}
    if "SPILLWAY_BUDGET" in os.environ:
        import spillway

        statistics = spillway.stats()
        counted = {
            "recomputations": statistics.recomputations,
            "checksums_compared": statistics.checksums_compared,
            "overshoot_bytes": statistics.overshoot_bytes,
        }
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"digest": digest.text(), "counted": counted}, file)


if __name__ == "__main__":
    main()
