# SPDX-License-Identifier: Apache-2.0
"""Threads that allocate with the interpreter's lock held, while tensors die in eviction."""

import faulthandler
import threading

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

THREADS = 8
ROUNDS = 60
HELD = 24  # tensors of each thread, 149 KiB on average: 28 MiB in all
BUDGET = "16MiB"
LIMIT = 100  # seconds, some ten times what it takes: a deadlock, whose stacks are then printed


class _Churn:
    """One thread's tensors: made, looked at and let go of in an order drawn from a seed."""

    def __init__(self, seed):
        import random

        self.random = random.Random(seed)
        self.held = {}
        self.finalized = 0
        self.next = seed * 1000

    def make(self):
        """An op, which gives the interpreter's lock up, or a storage, which does not."""
        import weakref

        import torch

        self.next += 1
        elements = self.random.choice((1 << 15, 1 << 16, 1 << 17)) // 2
        if self.random.random() < 0.5:
            tensor = torch.full((elements,), float(self.next))
        else:
            tensor = torch.tensor([], dtype=torch.float32)
            tensor.set_(torch.UntypedStorage(4 * elements))
            tensor.fill_(float(self.next))
        # Runs Python when the tensor dies, wherever that is.
        weakref.finalize(tensor.untyped_storage(), self._count)
        self.held[self.next] = tensor

    def _count(self):
        self.finalized += 1

    def look(self):
        value = self.random.choice(list(self.held))
        assert bool((self.held[value] == float(value)).all()), value

    def run(self, mailbox):
        import gc

        for turn in range(ROUNDS):
            while len(self.held) < HELD:
                self.make()
            self.look()
            for value in self.random.sample(list(self.held), 4):
                tensor = self.held.pop(value)
                if self.random.random() < 0.3:
                    mailbox.append(tensor)  # dies in another thread
                elif self.random.random() < 0.3:
                    cycle = [tensor]
                    cycle.append(cycle)  # dies in whichever thread collects garbage
                del tensor
            if self.random.random() < 0.5 and mailbox:
                mailbox.pop()
            if turn % 16 == 0:
                gc.collect()


#   thread 1   holds the interpreter's lock, allocates, waits for room .......... goes on
#   engine     evicts; the last reference to a tensor is its own: needs that lock?
#   thread 2   drops the tensor, waits for the interpreter's lock
@pytest.mark.parametrize("seed", range(3))
@in_child(timeout=LIMIT + 30)
def test_eight_threads_make_and_drop_tensors(seed):
    import sys

    import spillway

    faulthandler.dump_traceback_later(LIMIT, exit=True)
    activate(BUDGET=BUDGET)
    sys.setswitchinterval(1e-4)
    churns = [_Churn(1 + seed * THREADS + index) for index in range(THREADS)]
    mailbox, errors = [], []

    def run(churn):
        try:
            churn.run(mailbox)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(churn,)) for churn in churns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    for churn in churns:
        for value, tensor in churn.held.items():
            assert bool((tensor == float(value)).all()), value
        assert churn.finalized > 0
    stats = spillway.stats()
    assert stats.peak_device_bytes <= stats.budget_bytes and stats.overshoot_bytes == 0, stats
    held = sum(tensor.nbytes for churn in churns for tensor in churn.held.values())
    left = stats.evicted_bytes + stats.clean_evicted_bytes
    assert left >= held - stats.budget_bytes > 0, (held, stats)
    faulthandler.cancel_dump_traceback_later()
