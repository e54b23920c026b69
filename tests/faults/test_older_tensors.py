# SPDX-License-Identifier: Apache-2.0
"""Tensors that are older than ``enable()``: moved where nobody can hold a pointer, else left."""

import threading

from tests.faults.in_child import in_child

MIB = 1 << 20


@in_child
def test_what_a_running_op_uses_stays_where_it_is():
    """The op began before; freeing its operands would let it read and write what is others'."""
    import torch

    import spillway

    size = 2000
    left, right, result = (torch.ones(size, size) for _ in range(3))
    started, wrong = threading.Event(), []

    def work():
        started.set()
        for _ in range(4):
            torch.mm(left, right, out=result)
            wrong.append(int((result != size).sum()))

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    while not wrong:  # the kernel of the second is running, or about to
        pass
    spillway.enable("1GiB")
    left.sum(), right.sum()
    others = [torch.zeros(size, size) for _ in range(4)]
    thread.join()
    assert wrong == [0] * 4 and len(others) == 4


@in_child
def test_a_consumer_of_dlpack_goes_on_sharing():
    import numpy

    import spillway
    from tests.faults.pressure import address_of, filled

    tensor = filled(1)
    array = numpy.from_dlpack(tensor)
    assert tensor.untyped_storage().resizable(), "then nothing but the counts shows the consumer"
    address = address_of(tensor)
    spillway.enable("64MiB")
    tensor.add_(1)
    assert address_of(tensor) == address
    assert (array == 2).all()


@in_child
def test_enabling_from_within_an_op_moves_nothing():
    import torch

    import spillway
    from tests.faults.pressure import address_of, filled, is_intact

    def kernel(x):
        before = address_of(x)
        spillway.enable("64MiB")
        return torch.tensor(address_of(x) == before)

    library = torch.library.Library("spillway_test", "DEF")
    library.define("start(Tensor x) -> Tensor")
    library.impl("start", kernel, "CPU")
    x, y = filled(1), filled(2)
    before = address_of(y)
    assert torch.ops.spillway_test.start(x)
    assert address_of(y) == before
    spillway.enable("64MiB")  # now they may
    assert address_of(x) != before != address_of(y)
    assert is_intact(x, 1) and is_intact(y, 2)


@in_child
def test_views_gradients_and_their_bases_are_taken_in():
    import torch

    import spillway
    from spillway import _native
    from tests.faults.pressure import address_of, filled, is_in_memory, push_out

    leaf = filled(1).requires_grad_()
    (leaf * 2).sum().backward()
    base = filled(3)
    views = [base[:1000], base.view(512, 512)]
    spillway.enable("12MiB")
    assert not _native.loaded().may_be_older()
    addresses = [address_of(one.detach()) for one in (leaf, leaf.grad, base)]
    push_out()
    assert not any(is_in_memory(address) for address in addresses)
    assert bool((leaf.grad == 2).all()) and all(bool((view == 3).all()) for view in views)
    assert torch.equal(views[1].flatten(), base)


def _has_one_that_does_not_fit():
    import spillway
    from tests.faults.pressure import address_of, filled, is_intact, push_out

    large, small = filled(1, 24), filled(2)
    before = address_of(large)
    for _ in range(2):
        spillway.enable("12MiB")
        assert address_of(large) == before
    push_out()
    assert is_intact(large, 1) and is_intact(small, 2)


def test_what_does_not_fit_stays_outside_and_that_is_said_once(starter):
    child = starter.run(_has_one_that_does_not_fit).require_success()
    assert child.stderr.count("tensors of 24 MiB that were made before enable() stay outside") == 1
