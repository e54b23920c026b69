# SPDX-License-Identifier: Apache-2.0
"""Steps are as fast after an epoch with forked loader workers as before it.

A fork makes the parent's pages read-only until they are written again, copies those that the child
still has, and breaks huge pages. All that shows as page faults, which the kernel counts exactly;
time is measured too, but judged only where the machine is quiet: FORK_SPEED=1, as `make soak` sets.
"""

import os
import resource
import statistics
import time

from tests.faults.in_child import in_child
from tests.faults.starter import activate

STEPS = 12
# Page faults are exact, so two epochs show them; times want a median.
ROUNDS = 5 if os.environ.get("FORK_SPEED") == "1" else 2
ALLOWED = 1.03


def _faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _measure(training):
    """(page faults per step, seconds per step): medians of some steps, the first two left out."""
    faults, seconds = [], []
    for _ in range(STEPS):
        before, began = _faults(), time.perf_counter()
        training.step()
        seconds.append(time.perf_counter() - began)
        faults.append(_faults() - before)
    return statistics.median(faults[2:]), statistics.median(seconds[2:])


def _epoch(training):
    """Two workers are forked, alive while steps are taken, and gone when this returns."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(64.0).view(16, 4))
    loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork")
    for _ in loader:
        training.step()


def _compare(budget):
    from tests.faults.training import Training

    activate(BUDGET=budget)
    training = Training(batch=2048)
    training.steps(6)
    ratios = []
    for _ in range(ROUNDS):
        faults, seconds = _measure(training)
        _epoch(training)
        faults_after, seconds_after = _measure(training)
        ratios.append(seconds_after / seconds)
        # Some hundred faults a step come and go with the allocator of the C library.
        assert faults_after <= faults * 1.1 + 256, (faults, faults_after)
    ratio = statistics.median(ratios)
    print(f"after / before, {budget}: {ratio:.3f}")
    if os.environ.get("FORK_SPEED") == "1":
        assert ratio <= ALLOWED, ratios


@in_child(timeout=300)
def test_after_an_epoch_with_workers_where_it_fits():
    _compare("1GiB")


@in_child(timeout=300)
def test_after_an_epoch_with_workers_under_pressure():
    _compare("64MiB")
