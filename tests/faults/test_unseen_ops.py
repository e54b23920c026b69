# SPDX-License-Identifier: Apache-2.0
"""Ops that began while the hook was at rest, since the program fitted, and waking among them."""

import threading
import time

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20


def _come_to_rest(*shown):
    """`shown` are tensors that the hook sees before, so that they may leave."""
    import spillway
    from tests.faults.training import Training

    training = Training()
    for tensor in shown:
        tensor[:1].add(0)
    training.steps(8)
    seen = spillway.stats().ops
    training.step()
    assert spillway.stats().ops == seen, "the hook does not rest"


@pytest.mark.parametrize("inference", [False, True])
@in_child(timeout=120)
def test_an_op_that_began_unseen_keeps_its_inputs(inference):
    """Another thread wakes the hook and needs the room of what that op reads and writes."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="512MiB")
    size = 4000  # 61 MiB a matrix, and long enough for the other thread to fill the budget
    with torch.inference_mode(inference):
        left, right, product = (torch.ones(size, size) for _ in range(3))
    begun, intact = threading.Event(), []

    def fill():
        begun.wait()
        time.sleep(0.05)
        held = [filled(value, mib=4) for value in range(120)]
        intact.append(all(is_intact(tensor, value) for value, tensor in enumerate(held)))

    other = threading.Thread(target=fill)
    other.start()  # before the rest, which starting a thread would end
    _come_to_rest(left, right, product)
    with torch.inference_mode(inference):
        begun.set()
        torch.mm(left, right, out=product)
    assert bool((product == size).all())
    other.join()
    assert intact == [True]
    # While that op ran the budget could not hold, which counts.
    stats = spillway.stats()
    assert stats.evictions + stats.overshoot_bytes > 0, "all fitted: the test shows nothing"


@in_child
def test_the_budget_holds_again_where_the_hook_wakes_in_inference_mode():
    """There every op looks as if it were inside another one."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="96MiB")
    _come_to_rest()
    with torch.inference_mode():
        held = [filled(value) for value in range(160)]
        assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    stats = spillway.stats()
    assert stats.evictions > 0
    # The op that woke it may finish what it began; what was made unseen cannot leave at once.
    assert stats.peak_device_bytes <= 96 * MIB + 8 * MIB, stats
