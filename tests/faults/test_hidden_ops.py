# SPDX-License-Identifier: Apache-2.0
"""The rows of docs/pytorch.md about ops that are hidden from the hook: an error, or held by the
user.
"""

import threading

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate


def _by_key(tensor):
    import torch

    torch.ops.aten.add_.Tensor._op_dk(torch._C.DispatchKey.CPU, tensor, torch.tensor(1.0))


def _unrecorded(tensor):
    import torch

    torch._C._autograd._enable_record_function(False)
    try:
        tensor.add_(1)
    finally:
        torch._C._autograd._enable_record_function(True)


def _bound_past_the_dispatcher(tensor):
    """As a method of a C++ class or a function of pybind reads a tensor that it was given."""
    import ctypes

    from tests.faults.pressure import address_of

    number = ctypes.c_float.from_address(address_of(tensor))
    number.value = number.value + 1


HIDDEN = (_by_key, _unrecorded, _bound_past_the_dispatcher)


@pytest.mark.parametrize("way", range(len(HIDDEN)))
@in_child
def test_a_hidden_op_is_an_error_where_its_tensor_has_left(way):
    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB")
    tensor = filled(5)
    push_out()
    try:
        HIDDEN[way](tensor)
    except RuntimeError as error:
        assert "spillway.resident" in str(error), error
    else:
        raise AssertionError("it ran")
    assert is_intact(tensor, 5)


@pytest.mark.parametrize("way", range(len(HIDDEN)))
@in_child
def test_a_hidden_op_is_right_on_what_is_held(way):
    """A copy from before does not count after it."""
    import spillway
    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB")
    tensor = filled(5)
    push_out()
    assert is_intact(tensor, 5)  # in memory again, with its copy
    with spillway.resident(tensor):
        HIDDEN[way](tensor)
    push_out()
    assert tensor[0].item() == 6


@in_child
def test_a_seen_op_that_runs_others_keeps_its_tensor():
    """They begin and end, and another thread needs the room."""
    import spillway
    from tests.faults.pressure import filled, is_intact
    from tests.faults.test_waking import HeldOp

    activate(BUDGET="12MiB")
    op, tensor = HeldOp(runs_ops=True), filled(5)
    thread = threading.Thread(target=op.run, args=[tensor])
    thread.start()
    assert op.begun.wait(30)
    held = [filled(value) for value in range(24)]
    op.go_on.set()
    thread.join()
    assert op.stayed
    assert not tensor.any()
    assert all(is_intact(one, value) for value, one in enumerate(held))
    stats = spillway.stats()
    assert stats.evictions > 0 and stats.overshoot_bytes == 0, stats
