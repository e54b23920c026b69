# SPDX-License-Identifier: Apache-2.0
"""Storages that a thread holds after its last op: addresses that it asked for, and results."""

import ctypes
import threading

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20


def _first(address):
    return ctypes.c_float.from_address(address).value


@in_child
def test_addresses_are_all_good_until_the_next_op_or_refused():
    import torch

    from tests.faults.pressure import filled

    activate(BUDGET="12MiB")
    tensors = [filled(value, 5) for value in (1, 2, 3)]
    held = [filled(value) for value in range(10, 30)]
    addresses = [tensors[0].data_ptr(), tensors[1].untyped_storage().data_ptr()]
    try:
        tensors[2].data_ptr()
        raise AssertionError("15 MiB fit into 12")
    except torch.OutOfMemoryError as error:
        assert "2 addresses that were given since this thread's last op hold 10 MiB" in str(error)
    assert [_first(address) for address in addresses] == [1.0, 2.0]
    assert float(held[0][0]) == 10.0  # an op
    assert _first(tensors[2].data_ptr()) == 3.0


@in_child
def test_threads_without_a_further_op_hold_nothing_for_ever():
    """Eight that wait, with what their last op made: 32 MiB of a budget of 36."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="36MiB")
    held, made, end = {}, threading.Barrier(9), threading.Event()

    def work(value):
        held[value] = torch.full((MIB,), float(value))
        made.wait()
        end.wait()

    threads = [threading.Thread(target=work, args=(value,)) for value in range(8)]
    for thread in threads:
        thread.start()
    made.wait()
    ours = [filled(50 + value, 4) for value in range(8)]
    stats = spillway.stats()
    assert stats.overshoot_bytes == 0 and stats.evictions >= 7, stats
    assert all(is_intact(tensor, 50 + value) for value, tensor in enumerate(ours))
    assert all(is_intact(tensor, value) for value, tensor in held.items())
    end.set()
    for thread in threads:
        thread.join()
