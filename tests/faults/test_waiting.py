# SPDX-License-Identifier: Apache-2.0
"""Threads that need room while an op is open that waits for them: every wait has an end."""

import threading
import time

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20
# Patience is over at once, as if half a minute had passed in which nothing got on.
OUT_OF_PATIENCE = "wait.patience=EIO@1+"


def _floats(mib):
    return mib * MIB // 4


def _in_thread(function):
    """Returns its result, or the exception it raises, on a thread of its own."""
    outcome = []

    def run():
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


def _op(name, kernel):
    """An op with a kernel in Python, which the dispatcher shows whatever the version."""
    import torch

    library = torch.library.Library("waiting", "FRAGMENT")
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, kernel, "CompositeExplicitAutograd")
    return library, getattr(torch.ops.waiting, name)


def _helper_asks_for(mib, **settings):
    """A helper thread, which the kernel of a running op waits for, asks for `mib`."""
    import torch

    activate(BUDGET="64MiB", **settings)
    outcome = []

    def kernel(x):
        outcome.append(_in_thread(lambda: torch.empty(_floats(mib)).numel()))
        return torch.zeros(1)

    library, op = _op("helper", kernel)
    x = torch.ones(_floats(40))
    began = time.monotonic()
    op(x)
    assert bool((x == 1).all())
    del library
    return outcome[0], time.monotonic() - began


#   main      |-- op: x pinned -- starts helper -- joins it ....... --|
#   helper                        needs the room of x, which waits for the op
@in_child(timeout=100)
def test_a_helper_of_a_running_op_gets_an_error():
    import torch

    error, _ = _helper_asks_for(40, FAULTS=OUT_OF_PATIENCE)
    assert isinstance(error, torch.OutOfMemoryError), error
    assert "need 40 MiB" in str(error), error
    assert "waiting::helper" in str(error) and "on other threads" in str(error), error


# Nothing stands still for longer than a second there, and nothing is armed.
@in_child(timeout=100)
def test_a_helper_exceeds_the_budget_where_that_is_allowed():
    import spillway

    numbers, seconds = _helper_asks_for(40, OVER="allow")
    assert numbers == _floats(40), numbers
    assert spillway.stats().overshoot_bytes > 0
    assert 0.9 < seconds < 20, seconds


@in_child(timeout=100)
def test_what_can_never_fit_is_refused_at_once():
    import torch

    error, seconds = _helper_asks_for(400)
    assert isinstance(error, torch.OutOfMemoryError), error
    assert "It waited" not in str(error), error
    assert seconds < 20, seconds


#   main      takes the interpreter's lock, needs the room of x: lets go of the lock ...... goes on
#   other     |-- op: x pinned ... its kernel is Python and needs the lock .............. --|
@in_child(timeout=100)
def test_an_op_in_python_ends_while_the_interpreters_holder_waits():
    import torch

    import spillway

    activate(BUDGET="64MiB")
    began, waited = threading.Event(), []

    def kernel(x):
        began.set()
        for _ in range(100):  # each turn takes the lock anew
            time.sleep(0.005)
        waited.append(bool((x == 1).all()))
        return torch.zeros(1)

    library, op = _op("slow", kernel)
    x = torch.ones(_floats(40))
    other = threading.Thread(target=lambda: op(x))
    other.start()
    began.wait()
    numbers = torch.tensor([1.0] * _floats(40))  # holds the lock while it allocates
    assert waited == [True], "it did not wait for the op"
    other.join()
    assert bool((numbers == 1).all()) and bool((x == 1).all())
    stats = spillway.stats()
    assert stats.overshoot_bytes == 0 and stats.evictions > 0, stats
    del library


@in_child(timeout=100)
def test_the_interpreters_holder_gets_an_error_if_the_op_waits_for_it():
    """The op waits for what the waiting thread would do next."""
    import torch

    activate(BUDGET="64MiB", FAULTS=OUT_OF_PATIENCE)
    began, may_end = threading.Event(), threading.Event()

    def kernel(x):
        began.set()
        may_end.wait()
        return torch.zeros(1)

    library, op = _op("waits", kernel)
    x = torch.ones(_floats(40))
    other = threading.Thread(target=lambda: op(x))
    other.start()
    began.wait()
    try:
        torch.tensor([1.0] * _floats(40))
    except torch.OutOfMemoryError as error:
        assert "waiting::waits" in str(error), error
    else:
        raise AssertionError("there was room")
    may_end.set()
    other.join()
    assert bool((torch.tensor([1.0] * _floats(40)) == 1).all()), "now there is"
    del library


def _openmp_parallel(function, threads):
    """Runs `function` on each thread of a parallel region of the OpenMP that torch has loaded."""
    import ctypes

    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libgomp" in line}
    runtime = ctypes.CDLL(paths.pop())
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function())
    runtime.GOMP_parallel(callback, None, ctypes.c_uint(threads), ctypes.c_uint(0))


@in_child(timeout=100)
def test_openmp_workers_of_a_running_op_get_an_error():
    import torch

    activate(BUDGET="64MiB", FAULTS=OUT_OF_PATIENCE)
    outcomes = {}

    def work():
        try:
            torch.empty(_floats(40))
            outcomes[threading.get_ident()] = None
        except torch.OutOfMemoryError as error:
            outcomes[threading.get_ident()] = str(error)

    def kernel(x):
        _openmp_parallel(work, 3)
        return torch.zeros(1)

    library, op = _op("loop", kernel)
    x = torch.ones(_floats(40))
    op(x)
    assert len(outcomes) == 3, "the region did not run on three threads"
    assert all(outcomes.values()), outcomes
    assert bool((x == 1).all())
    del library


#   main      |-- op: x pinned -- reduces, waits for what follows ....... --|
#   gloo            ends the collective, runs what follows: needs the room of x
@in_child(timeout=100)
def test_what_gloo_threads_run_gets_an_error_that_reaches_the_op():
    """As DistributedDataParallel's hooks for gradients do. Both ranks live in this process, so that
    the collective ends after what follows it was named."""
    from concurrent.futures import ThreadPoolExecutor
    from datetime import timedelta

    import torch
    from torch import distributed

    activate(BUDGET="64MiB", FAULTS=OUT_OF_PATIENCE)
    store = distributed.HashStore()
    with ThreadPoolExecutor(2) as ranks:
        first, second = ranks.map(
            lambda rank: distributed.ProcessGroupGloo(store, rank, 2, timedelta(seconds=60)),
            range(2),
        )
    refused, ran_on = [], []

    def follow(future):
        ran_on.append(threading.get_native_id())
        return torch.empty(_floats(40))

    def kernel(x):
        followed = first.allreduce([torch.ones(4)]).get_future().then(follow)
        second.allreduce([torch.ones(4)])
        try:
            followed.wait()
        except Exception as error:
            refused.append(str(error))
        return torch.zeros(1)

    library, op = _op("reduces", kernel)
    x = torch.ones(_floats(40))
    op(x)
    assert ran_on and ran_on[0] != threading.get_native_id(), "it ran on the op's own thread"
    assert len(refused) == 1 and "waiting::reduces on other threads" in refused[0], refused
    assert bool((x == 1).all())
    del library
