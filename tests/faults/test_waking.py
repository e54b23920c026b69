# SPDX-License-Identifier: Apache-2.0
"""The hook wakes beside ops that it did not see begin, and nothing that those use leaves memory.

resting thread   | op begins, unseen .... uses its tensor | ends | op, seen |
another          |   fills the budget: nothing leaves      |      |          | what is unused leaves

The ops here are held until the test lets them go on. They have no kernel for autograd, so that
nothing of the thread's dispatch keys shows that it is inside one.
"""

import contextlib
import ctypes
import threading
import time

import pytest

from tests.faults.compiled_op import CompiledOp, compile_op
from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20
BUDGET = "64MiB"  # the training's peak, some 40 MiB, is below 80 % of it
UNTIL_REST = 5
MORE_THAN_FITS = 100  # MiB
MODES = ("grad", "no_grad", "inference")


def _mode(name):
    import torch

    modes = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
    return modes.get(name, contextlib.nullcontext)()


class HeldOp:
    """torch.ops.held.clear, which sets its tensor to zero through its address when told to go on.

    `stayed` says whether the tensor was in memory then; nothing is written where it was not.
    """

    def __init__(self, *, runs_ops=False):
        import torch

        self.begun, self.go_on = threading.Event(), threading.Event()
        self.stayed = None
        self._runs_ops = runs_ops
        torch.library.define("held::clear", "(Tensor(a!) value) -> ()")
        torch.library.impl("held::clear", "CPU")(self._clear)

    def _clear(self, value):
        import torch

        from tests.faults.pressure import address_of, is_in_memory

        address, size = address_of(value), value.nbytes
        self.begun.set()
        if self._runs_ops:
            while not self.go_on.is_set():
                torch.ones(4).add(1)
        assert self.go_on.wait(30)
        self.stayed = is_in_memory(address)
        if self.stayed:
            ctypes.memset(address, 0, size)

    def run(self, tensor):
        import torch

        torch.ops.held.clear(tensor)


@pytest.fixture(params=["Python", "C++"])
def library(request):
    """Returns the library that has the kernel of the held op, if that is compiled code."""
    return None if request.param == "Python" else compile_op()


def _held_op(library, **options):
    return HeldOp(**options) if library is None else CompiledOp(library, **options)


def _known(mode, mib=4):
    """A tensor of fives that the hook has seen, so that it may leave."""
    from tests.faults.pressure import filled

    with _mode(mode):
        return filled(5, mib=mib).add_(0)


def _come_to_rest():
    import spillway
    from tests.faults.training import Training

    training = Training().steps(UNTIL_REST)
    before = spillway.stats().ops
    training.step()
    assert spillway.stats().ops == before, "the hook does not rest"
    return training


def _fill(count=MORE_THAN_FITS):
    from tests.faults.pressure import filled

    return [filled(value) for value in range(count)]


def _require_intact(held):
    from tests.faults.pressure import is_intact

    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))


def _evictions():
    import spillway

    return spillway.stats().evictions


def _require_that_things_leave_again():
    from tests.faults.pressure import filled

    filled(0).add_(1)  # whoever was in doubt shows itself
    before = _evictions()
    _require_intact(_fill())
    assert _evictions() > before


class Thread(threading.Thread):
    """Runs a function when it is told to, so that it may be older than the rest, and run no op."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self._function, self._begins, self.result, self.error = function, threading.Event(), 0, None

    def run(self):
        self._begins.wait()
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error

    def begin(self):
        if not self.is_alive():
            self.start()
        self._begins.set()

    def wait(self):
        self.join(60)
        assert not self.is_alive() and self.error is None, self.error
        return self.result


@pytest.mark.parametrize("runs_ops", [False, True])
@pytest.mark.parametrize("mode", MODES)
@in_child
def test_an_unseen_op_of_the_thread_that_rests(mode, runs_ops, library):
    """Its own ops are seen once the hook is awake, and prove nothing."""
    activate(BUDGET=BUDGET)
    op, tensor = _held_op(library, runs_ops=runs_ops), _known(mode)

    def fill():
        assert op.begun.wait(30)
        held = _fill()
        evictions = _evictions()
        op.go_on.set()
        return held, evictions

    other = Thread(fill)
    other.start()
    _come_to_rest()
    other.begin()
    with _mode(mode):
        op.run(tensor)
    assert op.stayed
    held, evictions = other.wait()
    assert evictions == 0
    assert not tensor.any()
    _require_that_things_leave_again()
    _require_intact(held)


@pytest.mark.parametrize("age", ["older", "newer"])
@pytest.mark.parametrize("mode", MODES)
@in_child
def test_the_first_op_of_another_thread(mode, age, library):
    """It is seen, so what others do not use may leave beside it."""
    activate(BUDGET=BUDGET)
    op, tensor = _held_op(library), _known(mode)

    def run():
        with _mode(mode):
            op.run(tensor)

    other = Thread(run)
    if age == "older":
        other.start()
    _come_to_rest()
    other.begin()
    assert op.begun.wait(30)
    held = _fill()
    assert _evictions() > 0
    op.go_on.set()
    other.wait()
    assert op.stayed
    assert not tensor.any()
    _require_intact(held)


@in_child
def test_a_thread_that_is_waited_for_keeps_to_the_budget():
    """Whoever rested waits for it, and runs no op that could show where it is."""
    import spillway

    activate(BUDGET=BUDGET)
    _come_to_rest()
    other = Thread(_fill)
    other.begin()
    _require_intact(other.wait())
    stats = spillway.stats()
    assert stats.evictions > 0, stats
    assert stats.peak_device_bytes <= stats.budget_bytes and stats.overshoot_bytes == 0, stats


@in_child
def test_what_runs_with_the_state_of_the_thread_that_rests():
    """torch hands it to the threads that work for it: their ops are as unseen."""
    import torch

    activate(BUDGET=BUDGET)
    op, tensor = HeldOp(), _known("grad")

    @torch.jit.script
    def run(tensor: torch.Tensor):
        torch.ops.held.clear(tensor)
        return tensor

    @torch.jit.script
    def fork(tensor: torch.Tensor):
        return torch.jit.fork(run, tensor)

    _come_to_rest()
    future = fork(tensor)
    assert op.begun.wait(30)
    held = _fill()
    assert _evictions() == 0
    op.go_on.set()
    while not future.done():  # torch.jit.wait would keep the global lock, which the op needs
        time.sleep(0.01)
    assert op.stayed
    assert not tensor.any()
    del future
    _require_that_things_leave_again()
    _require_intact(held)


@in_child
def test_a_backward_pass_that_began_at_rest():
    """The state that the pass was begun with is put back at each of its nodes."""
    import torch

    activate(BUDGET=BUDGET)
    op, tensor = HeldOp(), _known("grad")

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            return value.clone()

        @staticmethod
        def backward(context, gradient):
            held.extend(_fill())
            evictions.append(_evictions())
            op.go_on.set()
            op.run(tensor)
            return gradient.clone()

    held, evictions = [], []
    leaf = torch.ones(4, requires_grad=True)
    _come_to_rest()
    Node.apply(Node.apply(leaf)).sum().backward()
    assert op.stayed
    assert not tensor.any()
    _require_that_things_leave_again()
    assert evictions[0] == 0
    _require_intact(held[:MORE_THAN_FITS])


@pytest.mark.parametrize("begins", ["before disable()", "after it"])
@in_child
def test_an_op_that_began_while_nothing_was_watched(begins, library):
    """Another thread runs it: what it uses stays after enable(), until it ends."""
    import torch

    import spillway

    activate(BUDGET=BUDGET)
    op, tensor = _held_op(library), _known("grad")

    def run():
        torch.ones(4).add_(0)
        known.set()
        assert off.wait(30)
        op.run(tensor)

    known, off = threading.Event(), threading.Event()
    other = Thread(run)
    if begins == "before disable()":
        other.begin()
        assert known.wait(30)
    spillway.disable()
    other.begin()
    off.set()
    assert op.begun.wait(30)
    spillway.enable(BUDGET, over="allow")
    before = _evictions()
    held = _fill()
    assert _evictions() == before
    op.go_on.set()
    other.wait()
    assert op.stayed
    assert not tensor.any()
    _require_that_things_leave_again()
    _require_intact(held)


@in_child
def test_an_idle_thread_does_not_keep_enable_from_its_budget():
    import spillway

    activate(BUDGET=BUDGET)

    def run():
        _known("grad")
        known.set()
        assert ends.wait(60)

    known, ends = threading.Event(), threading.Event()
    other = Thread(run)
    other.begin()
    assert known.wait(30)
    spillway.disable()
    spillway.enable(BUDGET)
    held = _fill()
    assert _evictions() > 0
    ends.set()
    other.wait()
    _require_intact(held)


@in_child
def test_profilers_see_the_ops_of_a_thread_that_rested():
    import torch

    activate(BUDGET=BUDGET)
    training = _come_to_rest()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        training.steps(UNTIL_REST + 1)
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts["aten::linear"] == 8 * (UNTIL_REST + 1), counts


@in_child
def test_nothing_rests_once_there_is_a_process_group():
    """Collectives run on after their op has returned: the hook must see which buffers stay."""
    import torch
    import torch.distributed

    import spillway

    activate(BUDGET=BUDGET)
    training = _come_to_rest()
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    for _ in range(UNTIL_REST + 2):
        before = spillway.stats().ops
        training.step()
        assert spillway.stats().ops > before
    torch.distributed.destroy_process_group()
