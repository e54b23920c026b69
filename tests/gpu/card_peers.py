# SPDX-License-Identifier: Apache-2.0
"""Copies between a card with a budget, which leaves 160 MiB for tensors, and a second card: a
program of its own, which fails at the first that brings other values. Its arguments name parts, all
by default. It is started with a wide budget.
"""

import ctypes
import sys

import torch

import spillway
from tests.gpu.card_memory import cudas
from tests.gpu.room import make_room, run_parts

MIB = 1 << 20
ROOM = 160 * MIB
MANAGED, OTHER = torch.device("cuda:0"), torch.device("cuda:1")


def filled(value, mib=16):
    """The values depend on their place, so a copy that is turned around differs."""
    count = mib * MIB // 4
    return torch.arange(value, value + count, dtype=torch.float32).view(1024, -1)


def crowd():
    """With this all other tensors have left."""
    held = [torch.zeros(16 * MIB, dtype=torch.uint8, device=MANAGED) for _ in range(9)]
    assert all(each[-1].item() == 0 for each in held)


def what_has_left_is_copied():
    expected = [filled(value) for value in range(6)]
    tensors = [each.to(MANAGED) for each in expected]
    evicted = spillway.stats().evicted_bytes
    crowd()
    assert spillway.stats().evicted_bytes > evicted
    for tensor, values in zip(tensors, expected, strict=True):
        there = tensor.to(OTHER)
        assert there.device == OTHER
        assert torch.equal(there.cpu(), values)


def copies_come_back():
    expected = [filled(value) for value in range(6)]
    others = [each.to(OTHER) for each in expected]
    tensors = [torch.empty_like(each, device=MANAGED) for each in expected]
    crowd()
    for tensor, other in zip(tensors, others, strict=True):
        tensor.copy_(other, non_blocking=True)
    crowd()
    for tensor, values in zip(tensors, expected, strict=True):
        assert torch.equal(tensor.cpu(), values)


def what_is_not_contiguous_is_copied():
    """By a kernel of the source's card that reaches the other's memory, where it may."""
    values = filled(1)
    tensor = values.to(MANAGED)
    crowd()
    turned = torch.empty(values.t().shape, device=OTHER)
    turned.copy_(tensor.t())
    assert torch.equal(turned.cpu(), values.t())
    target = torch.zeros_like(values, device=MANAGED)
    crowd()
    target.t().copy_(turned)
    assert torch.equal(target.cpu(), values)


def a_stream_of_the_other_card_is_ordered():
    """It copies into what leaves at once."""
    values = filled(3)
    other, tensor = values.to(OTHER), torch.empty_like(values, device=MANAGED)
    side = torch.cuda.Stream(OTHER)
    side.wait_stream(torch.cuda.current_stream(OTHER))
    with torch.cuda.stream(side):
        tensor.copy_(other, non_blocking=True)
    crowd()
    assert torch.equal(tensor.cpu(), values)


def a_stream_of_the_other_card_may_be_recorded():
    """What it is given until the memory is freed has to end before the memory is another's."""
    copy_async = cudas("cudaMemcpyPeerAsync")
    side = torch.cuda.Stream(OTHER)
    for value in range(3):
        values = filled(value)
        tensor = values.to(MANAGED)
        there = torch.empty_like(tensor, device=OTHER)
        torch.cuda.synchronize(MANAGED)
        tensor.record_stream(side)
        copying = (
            ctypes.c_void_p(there.data_ptr()), OTHER.index,
            ctypes.c_void_p(tensor.data_ptr()), MANAGED.index,
            ctypes.c_size_t(tensor.nbytes), ctypes.c_void_p(side.cuda_stream),
        )  # fmt: skip
        with torch.cuda.device(OTHER):
            assert not any(copy_async(*copying) for _ in range(40))
        del tensor
        crowd()
        side.synchronize()
        assert torch.equal(there.cpu(), values)


PARTS = (
    what_has_left_is_copied,
    copies_come_back,
    what_is_not_contiguous_is_copied,
    a_stream_of_the_other_card_is_ordered,
    a_stream_of_the_other_card_may_be_recorded,
)

if __name__ == "__main__":
    make_room(ROOM)
    run_parts(PARTS, sys.argv[1:])
