# SPDX-License-Identifier: Apache-2.0
"""Processes forked from a managed one read what was evicted, while the parent goes on."""

import ctypes
import os

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20
ROWS = 48


def _data():
    """24 MiB: 48 rows of 512 KiB each."""
    import torch

    return torch.arange(ROWS * (1 << 17), dtype=torch.float32).view(ROWS, -1)


def _train_on_loaded_batches(data):
    """Two workers index the tensor while this process trains. Digests of all that they sent."""
    from torch.utils.data import DataLoader, TensorDataset

    from tests.faults.training import Training, digest

    loader = DataLoader(
        TensorDataset(data), batch_size=4, num_workers=2, multiprocessing_context="fork"
    )
    training = Training()
    digests = []
    for _ in range(2):  # each turn forks anew
        for index, (batch,) in enumerate(loader):
            digests.append(digest(batch))
            if index % 6 == 0:
                training.step()
    return digests, training.outcome()


@in_child
def test_loader_workers_index_an_evicted_dataset():
    import spillway
    from tests.faults.pressure import address_of, is_in_memory, push_out

    expected = _train_on_loaded_batches(_data())
    activate(BUDGET="32MiB")
    data = _data()
    address = address_of(data)
    push_out(30)
    assert not is_in_memory(address)
    assert _train_on_loaded_batches(data) == expected
    stats = spillway.stats()
    assert stats.evictions > 0 and stats.overshoot_bytes == 0, stats
    shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    assert not [entry for entry in shared if f"torch_{os.getpid()}_" in entry], shared


def _forked(function):
    """The exit status of a child that runs it: 0 if it returned True."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if function() else 2
        finally:
            os._exit(status)
    return pid


@in_child
def test_a_child_reads_while_the_parent_overwrites():
    """The parent's new evictions must not land where the child still reads."""
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="12MiB", FAULTS="spool.read=delay:3ms@1+")
    held = [filled(value) for value in range(32)]

    def check():
        return all(is_intact(tensor, value) for value, tensor in enumerate(held))

    pids = [_forked(check) for _ in range(2)]
    for value, tensor in enumerate(held):
        tensor.fill_(value + 100)
    held += [filled(value + 100) for value in range(32, 64)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
    assert all(is_intact(tensor, value + 100) for value, tensor in enumerate(held))


@in_child
def test_a_fork_in_the_middle_of_transfers():
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="12MiB", FAULTS="spool.write=delay:2ms@1+")
    held, pids = [], []
    for value in range(32):
        held.append(filled(value))
        if value % 8 == 7:
            pids.append(
                _forked(lambda: all(is_intact(one, index) for index, one in enumerate(held)))
            )
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))


@in_child
def test_a_child_may_train_by_itself():
    """It manages nothing, and computes the same."""
    from tests.faults.training import BUDGET, Training, train

    expected = train(3)
    activate(BUDGET=BUDGET)
    training = Training().steps(1)
    pid = _forked(lambda: training.steps(2).outcome() == expected)
    training.steps(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert training.outcome() == expected


@in_child
def test_a_child_whose_reads_fail_is_told():
    """Never a wrong value, and the parent is not disturbed."""
    from tests.faults.pressure import filled, is_intact, spool_descriptors

    activate(BUDGET="12MiB")
    held = [filled(value) for value in range(24)]

    def check():
        results = []
        for descriptor in spool_descriptors():
            os.close(descriptor)  # every read of this process fails from here on
        for value, tensor in enumerate(held):
            try:
                results.append(is_intact(tensor, value))
            except RuntimeError:
                results.append("told")
        return False not in results and "told" in results

    assert os.waitpid(_forked(check), 0)[1] == 0
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))


@in_child
def test_a_child_can_have_no_budget_of_its_own():
    """It is told so, and goes on: what had left is read, and more is made."""
    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="12MiB")
    held = [filled(value) for value in range(24)]

    def is_refused(start):
        try:
            start()
        except spillway.UserError as error:
            return "forked" in str(error) and "spawn" in str(error)
        return False

    def check():
        refused = is_refused(lambda: spillway.enable("64MiB"))
        refused &= is_refused(spillway.budget("8MiB").__enter__)
        spillway.disable()
        refused &= is_refused(lambda: spillway.enable("64MiB"))
        made = [filled(value) for value in range(24, 48)]
        return refused and all(is_intact(one, value) for value, one in enumerate(held + made))

    assert os.waitpid(_forked(check), 0)[1] == 0
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    assert spillway.stats().mode == "enforce"


@in_child
def test_a_child_forked_inside_a_block_leaves_it():
    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="16MiB")
    held = [filled(value) for value in range(24)]
    for _ in range(2):
        with spillway.budget("12MiB"):
            pid = os.fork()
            if pid != 0:
                assert os.waitpid(pid, 0)[1] == 0
        if pid == 0:
            os._exit(0 if all(is_intact(one, value) for value, one in enumerate(held)) else 1)
    assert spillway.stats().budget_bytes == 16 * MIB


@in_child
def test_a_fork_while_another_thread_looks_at_the_table_of_ops():
    """Its lock is free in the child, whose first op needs it."""
    import signal
    import threading

    import torch

    from spillway import _native

    activate(BUDGET="64MiB")
    library = _native.loaded()
    transparent_seen = library.functions.spillway_transparent_seen
    transparent_seen.restype = ctypes.c_void_p
    x = torch.ones(8)
    for name in ("sin", "cos", "exp", "log", "tanh", "sqrt", "abs", "neg"):  # a longer table
        getattr(x, name)()
    done = threading.Event()

    def look():
        while not done.is_set():
            library.take(transparent_seen())

    def child():
        signal.alarm(10)
        return library.take(transparent_seen()) is not None

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    statuses = [os.waitpid(_forked(child), 0)[1] for _ in range(60)]
    done.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 60
