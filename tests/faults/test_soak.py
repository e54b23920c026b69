# SPDX-License-Identifier: Apache-2.0
"""Trains for thousands of steps and watches for growth. SOAK=1; `make soak`.

Caches of PyTorch's own grow at first (oneDNN keeps primitives by shape), so growth is counted
after SOAK_STEPS (2,000) steps of warm-up, over as many again.
"""

import os

import pytest

from tests.faults.starter import activate

STEPS = int(os.environ.get("SOAK_STEPS", "2000"))
MIB = 1 << 20
ALLOWED_GROWTH = 4 * MIB  # of the process; a leak of 2 KiB per step shows

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.environ.get("SOAK") != "1", reason="takes minutes: make soak"),
]


class _Network:
    """Some 6 MiB at its peak, in tensors that are large enough to move."""

    def __init__(self):
        import torch
        from torch import nn

        torch.manual_seed(5)
        layers = []
        for _ in range(8):
            layers += [nn.Linear(128, 128), nn.GELU(), nn.Dropout(0.1)]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.x = torch.randn(256, 128)

    def step(self, rows):
        self.optimizer.zero_grad()
        self.model(self.x[:rows]).square().mean().backward()
        self.optimizer.step()


def _held():
    """Returns the numbers that must not grow: resident bytes, descriptors, threads, mappings, and
    the engine's own.
    """
    import gc

    import spillway
    from tests.faults.pressure import resident_bytes

    gc.collect()
    stats = spillway.stats()
    with open("/proc/self/maps", encoding="ascii") as maps:
        mappings = sum(1 for _ in maps)
    return {
        "resident": resident_bytes(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "mappings": mappings,
        "device": stats.device_bytes,
        "disk": stats.disk_bytes,
        "storages": stats.storages,
        "moved": stats.evicted_bytes,
    }


def _soak(varying):
    network = _Network()
    for step in range(STEPS):
        network.step(256 - step % 64 if varying else 256)
    before = _held()
    for step in range(STEPS):
        network.step(256 - step % 64 if varying else 256)
    after = _held()
    return before, after


@pytest.mark.parametrize("varying", [False, True], ids=["same-shapes", "64-shapes"])
@pytest.mark.parametrize("budget", ["3MiB", "64MiB"])
def test_nothing_grows(starter, budget, varying):
    child = starter.run(_run, budget, varying, timeout=3600).require_success()
    before, after = child.result
    print(f"\n{budget}, {'varying' if varying else 'same'} shapes: {before} -> {after}")
    moved = after.pop("moved") - before.pop("moved")
    assert (moved > STEPS * MIB // 2) == (budget == "3MiB"), moved
    assert after["resident"] - before["resident"] <= ALLOWED_GROWTH, (before, after)
    for name in ("descriptors", "threads"):
        assert after[name] <= before[name], (name, before, after)
    assert after["mappings"] <= before["mappings"] * 1.05 + 16, (before, after)
    for name in ("device", "disk"):
        assert after[name] <= before[name] + MIB, (name, before, after)
    assert after["storages"] <= before["storages"] + 4, (before, after)


def _run(budget, varying):
    os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "64"
    activate(BUDGET=budget, MIN_SIZE="16KiB")
    return _soak(varying)
