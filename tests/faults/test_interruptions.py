# SPDX-License-Identifier: Apache-2.0
"""Signals and exceptions in the middle of a step, and threads side by side."""

import os
import signal
import threading
import time

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

SLOW_DISK = "spool.write=delay:2ms@1+, spool.read=delay:2ms@1+"


def _signal_after(seconds, number):
    """Sends the signal to this process while it does something else."""

    def send():
        time.sleep(seconds)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


def _train_until(number):
    from tests.faults.training import BUDGET, Training

    activate(BUDGET=BUDGET, FAULTS=SLOW_DISK)
    training = Training().steps(1)
    print("training", flush=True)
    _signal_after(0.2, number)
    training.steps(10000)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_signal_leaves_nothing_behind(starter, name):
    """No file in the spool directory, which is the temporary one, and none in shared memory."""
    number = getattr(signal, name)
    child = starter.run(_train_until, number)
    assert child.stdout == "training\n", child.describe()
    assert child.status == (130 if name == "SIGINT" else -number), child.describe()
    assert child.left_behind == []
    shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    assert not [entry for entry in shared if "spillway" in entry or f"_{child.pid}_" in entry]


@in_child
def test_training_goes_on_after_an_interrupt():
    """Wherever it hits: what is trained afterwards is right, in the same process."""
    import spillway
    from tests.faults.training import BUDGET, Training, require_budget_held, train

    expected = train(2)
    activate(BUDGET=BUDGET, FAULTS=SLOW_DISK)
    for delay in (0.05, 0.11, 0.17):
        training = Training()
        _signal_after(delay, signal.SIGINT)
        try:
            training.steps(10000)
        except KeyboardInterrupt:
            spillway.stats()
        assert train(2) == expected
    require_budget_held()


class _UserError(Exception):
    pass


def _train_with_exceptions():
    """Raises in a forward hook, in a backward hook and in the optimizer, one step each."""
    from tests.faults.training import Training

    training = Training()

    def fail(*_):
        raise _UserError

    places = [
        training.model[7].register_forward_hook,
        training.model[4].register_full_backward_hook,
        training.optimizer.register_step_pre_hook,
    ]
    for place in places:
        training.step()
        handle = place(fail)
        try:
            training.step()
        except _UserError:
            handle.remove()
    return training.step().outcome()


@in_child
def test_exceptions_of_the_program_change_nothing():
    from tests.faults.training import BUDGET, require_budget_held

    expected = _train_with_exceptions()
    activate(BUDGET=BUDGET)
    assert _train_with_exceptions() == expected
    require_budget_held()


@in_child
def test_exceptions_leave_no_pins_behind():
    """Ops that fail with their inputs pinned, far more often than what is pinned would fit."""
    import torch

    from tests.faults.pressure import filled, is_intact
    from tests.faults.training import require_budget_held

    activate(BUDGET="12MiB")
    held = [filled(value) for value in range(32)]
    for tensor in held:
        for fails in (lambda t: t @ t[:5], lambda t: t.view(7, -1), lambda t: t[1 << 30]):
            try:
                fails(tensor)
            except (RuntimeError, IndexError):
                continue
            raise AssertionError("that should have failed")
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    torch.ones(8 << 18)  # 8 of 12 MiB
    require_budget_held()


@in_child
def test_threads_side_by_side_train_what_they_train_alone():
    from tests.faults.training import require_budget_held, train

    expected = [train(4, seed=seed) for seed in (1, 2)]
    activate(BUDGET="20MiB", FAULTS="spool.write=delay:200us@1+")
    outcomes = [None, None]

    def run(index):
        outcomes[index] = train(4, seed=index + 1)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == expected
    require_budget_held()


@in_child
def test_a_thread_that_fails_does_not_harm_the_other():
    import torch

    from tests.faults.training import require_budget_held, train

    expected = train(4)
    activate(BUDGET="20MiB")
    errors = []
    done = threading.Event()

    def run():
        while not done.is_set():
            try:
                torch.ones(1 << 20) @ torch.ones(5)
            except RuntimeError as error:
                errors.append(error)
            try:
                torch.empty(64 << 20)
            except torch.OutOfMemoryError as error:
                errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert train(4) == expected
    finally:
        done.set()
        thread.join()
    assert errors
    require_budget_held()


def _train_changing_threads():
    import torch

    from tests.faults.training import Training

    training = Training(batch=128)
    for count in (2, 1, 2):
        torch.set_num_threads(count)
        training.step()
    return training.outcome()


@in_child
def test_the_number_of_threads_may_change():
    from tests.faults.training import BUDGET, require_budget_held

    expected = _train_changing_threads()
    activate(BUDGET=BUDGET)
    assert _train_changing_threads() == expected
    require_budget_held()
