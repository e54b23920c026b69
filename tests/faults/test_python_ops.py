# SPDX-License-Identifier: Apache-2.0
"""Every way to call an operator from Python is seen: its stores are kept, and it is counted.

tensor    made | read back: in memory, its copy still good | kernel stores 0 | pushed out
unseen                                                       lost, since the copy serves
"""

import ctypes

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20


def _store_zeros(out):
    """A kernel bound past torch does so: an address from the C++ accessor, then stores."""
    from tests.faults.pressure import address_of

    ctypes.memset(address_of(out), 0, out.nbytes)


def _custom_op(torch):
    operator = torch.library.custom_op("ways::clear", mutates_args={"out"})

    @operator
    def clear(out: torch.Tensor) -> None:
        _store_zeros(out)

    return clear


def _triton_op(torch):
    operator = torch.library.triton_op("ways::triton", mutates_args={"out"})

    @operator
    def triton(out: torch.Tensor) -> None:
        _store_zeros(out)

    return triton


def _defined_op(torch):
    torch.library.define("ways::defined", "(Tensor(a!) out) -> ()")
    torch.library.impl("ways::defined", "CPU")(_store_zeros)
    return torch.ops.ways.defined


def _kernel(torch, name):
    kernel = torch.library.get_kernel(name, "CPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return lambda *arguments: kernel.call_boxed(keys, *arguments)


def _redispatch(torch, overload):
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return lambda *arguments: overload.redispatch(keys, *arguments)


def _vmapped(torch):
    decorate = torch.library.custom_op("ways::clear_all", mutates_args={"out"})

    @decorate
    def clear_all(out: torch.Tensor) -> torch.Tensor:
        _store_zeros(out)
        return torch.zeros(1)

    clear_all.register_vmap(lambda info, dims, out: (clear_all(out).expand(2, 1), 0))
    return lambda out: torch.vmap(clear_all)(out.view(2, -1))


WAYS = {
    "decorated function": _custom_op,
    "packet": lambda torch: _custom_op(torch) and torch.ops.ways.clear,
    "overload": lambda torch: _custom_op(torch) and torch.ops.ways.clear.default,
    "triton_op": _triton_op,
    "packet of a triton_op": lambda torch: _triton_op(torch) and torch.ops.ways.triton,
    "define and impl": _defined_op,
    "overload of define and impl": lambda torch: _defined_op(torch).default,
    "vmap": _vmapped,
    "redispatch": lambda torch: (
        _custom_op(torch) and _redispatch(torch, torch.ops.ways.clear.default)
    ),
    "redispatch of torch's own": lambda torch: _redispatch(torch, torch.ops.aten.zero_.default),
    "get_kernel": lambda torch: _custom_op(torch) and _kernel(torch, "ways::clear"),
    "get_kernel of torch's own": lambda torch: _kernel(torch, "aten::zero_"),
}


def _require_seen(call, most=1):
    """One call is one op, what it stores is kept, and what has left is brought back for it."""
    import spillway
    from tests.faults.pressure import filled, is_intact, push_out

    for is_away in (False, True):
        tensor = filled(5)
        push_out()
        assert is_away or is_intact(tensor, 5)  # read back, so it is in memory with its copy
        before = spillway.stats().ops
        call(tensor)
        # A transform's own ops (unwrapping, moving the batch dimension) count beside it.
        assert before < spillway.stats().ops <= before + most, spillway.stats().ops - before
        push_out()
        assert is_intact(tensor, 0), is_away


@pytest.mark.parametrize("way", WAYS)
@in_child
def test_every_way_to_call_an_operator_is_seen(way):
    import torch

    activate(BUDGET="12MiB")
    _require_seen(WAYS[way](torch), most=10 if way == "vmap" else 1)


@pytest.mark.parametrize("way", ["decorated function", "overload", "triton_op"])
@in_child
def test_operators_that_were_made_before_enable_are_seen(way):
    import torch

    import spillway

    call = WAYS[way](torch)
    spillway.enable("12MiB")
    _require_seen(call)


@in_child
def test_a_custom_op_with_a_gradient_is_seen_in_both_directions():
    """Forward and backward are kernels of their own, each past the other."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB")

    @torch.library.custom_op("ways::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @torch.library.custom_op("ways::clear_and_scale", mutates_args={"mark"})
    def clear_and_scale(grad: torch.Tensor, mark: torch.Tensor, factor: float) -> torch.Tensor:
        _store_zeros(mark)
        return grad * factor

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]

    scaled.register_autograd(
        lambda ctx, grad: (clear_and_scale(grad, mark, ctx.factor), None),
        setup_context=setup,
    )
    x, mark = filled(2).requires_grad_(), filled(5)
    push_out()
    assert is_intact(mark, 5)
    before = spillway.stats().ops
    y = scaled(x, 3.0)
    assert spillway.stats().ops == before + 1
    y.backward(torch.ones_like(y))
    push_out()
    assert is_intact(mark, 0) and is_intact(x.grad, 3) and is_intact(y, 6)


@in_child
def test_bodies_of_higher_order_operators_are_seen():
    """`cond` has no kernel of its own: what runs are the ops of the branch that is taken."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB")
    clear = _custom_op(torch)
    cond = torch.ops.higher_order.cond
    tensor = filled(5)
    push_out()
    assert is_intact(tensor, 5)

    def branch(x):
        clear(tensor)
        return (x + 1,)

    before = spillway.stats().ops
    cond(True, branch, branch, (torch.ones(3),))
    assert spillway.stats().ops >= before + 2
    push_out()
    assert is_intact(tensor, 0)
