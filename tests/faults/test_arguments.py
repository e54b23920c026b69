# SPDX-License-Identifier: Apache-2.0
"""Tensors inside the arguments of an op, however deep, are its inputs.

unvisited    what has left is an error; what a kernel writes is lost, since the copy serves
"""

import ctypes

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

# The container of a tensor in an op's argument, and the type in its schema.
SHAPES = {
    "Dict(str, Tensor)": lambda tensor: {"weight": tensor},
    "Dict(str, Tensor[])": lambda tensor: {"weights": [tensor]},
    "Tensor[]": lambda tensor: [tensor],
    "Any": lambda tensor: tensor,
}


def _tensors_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [tensor for element in value for tensor in _tensors_in(element)]
    return [value]


def _clear(value):
    from tests.faults.pressure import address_of

    for tensor in _tensors_in(value):
        ctypes.memset(address_of(tensor), 0, tensor.nbytes)


@pytest.mark.parametrize("schema", SHAPES)
@in_child
def test_a_tensor_inside_an_argument_is_an_input(schema):
    import torch

    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB")
    torch.library.define("held::clear", f"({schema} value) -> ()")
    torch.library.impl("held::clear", "CompositeExplicitAutograd")(_clear)
    for is_away in (False, True):
        tensor = filled(5)
        push_out()
        assert is_away or is_intact(tensor, 5)  # read back, so it is in memory with its copy
        torch.ops.held.clear(SHAPES[schema](tensor))
        push_out()
        assert is_intact(tensor, 0), is_away


@in_child
def test_an_op_with_a_closed_argument_loses_nothing_while_it_runs():
    """Storages in memory when it begins stay there, and its writes are kept."""
    import torch

    import spillway
    from tests.faults.pressure import address_of, filled, is_in_memory, is_intact, push_out

    activate(BUDGET="12MiB")
    torch.library.define("held::closed", "(Future(Tensor) value) -> ()")
    tensor = filled(5)
    push_out()
    assert is_intact(tensor, 5)
    address = address_of(tensor)

    @torch.library.impl("held::closed", "CompositeExplicitAutograd")
    def closed(value):
        push_out()
        assert is_in_memory(address)
        ctypes.memset(address, 0, tensor.nbytes)

    torch.ops.held.closed(torch.futures.Future())
    assert spillway.stats().overshoot_bytes > 0
    push_out()
    assert not is_in_memory(address) and is_intact(tensor, 0)
