# SPDX-License-Identifier: Apache-2.0
"""Processes that multiprocessing starts share the budget of the one that started them."""

import contextlib
import multiprocessing
import os
import signal
import time

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20


def _train_in_spawned(connection):
    import spillway
    from tests.faults.training import train

    outcome = train(3)
    stats = spillway.stats()
    connection.send((outcome, stats.budget_bytes, stats.peak_device_bytes, stats.overshoot_bytes))
    connection.recv()  # holds its claim until it is told to end


def _next_step():
    """Makes the parent look at what was claimed: at each allocation, and at each step's end."""
    import torch

    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        weight.sum().backward()
        optimizer.step()


@contextlib.contextmanager
def _forked_that_holds(size):
    """A forked child with a tensor of `size` bytes, from when it has it until it is killed."""
    import torch

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        kept = torch.ones(size, dtype=torch.uint8)
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(int(kept[0]))
    os.close(writing)
    try:
        assert os.read(reading, 1), "the child ended before it had its tensor"
        yield
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@in_child(timeout=300)
def test_a_spawned_process_takes_its_part_and_gives_it_back():
    import spillway
    from tests.faults.pressure import filled, is_intact
    from tests.faults.training import train

    expected = train(3)
    activate(BUDGET="48MiB")
    held = [filled(index) for index in range(44)]
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_train_in_spawned, args=(there,))
    process.start()
    outcome, budget, peak, overshoot = here.recv()
    assert outcome == expected
    assert 0 < peak <= budget <= 24 * MIB and overshoot == 0, (budget, peak, overshoot)
    held.append(filled(44))
    stats = spillway.stats()
    assert stats.budget_bytes == 48 * MIB
    assert stats.shared_bytes >= budget and stats.device_bytes + budget <= 48 * MIB, stats
    here.send(None)
    process.join()
    assert process.exitcode == 0
    _next_step()
    assert spillway.stats().shared_bytes == 0
    assert all(is_intact(tensor, index) for index, tensor in enumerate(held))


@in_child(timeout=300)
def test_a_forked_process_counts():
    import spillway
    from tests.faults.pressure import filled

    activate(BUDGET="48MiB")
    held = [filled(index) for index in range(44)]
    with _forked_that_holds(20 * MIB):
        held.append(filled(44))
        stats = spillway.stats()
        assert stats.shared_bytes >= 20 * MIB, stats
        assert stats.device_bytes <= 28 * MIB, stats
    _next_step()
    assert spillway.stats().shared_bytes == 0


@in_child
def test_the_root_goes_on_where_it_would_have_alone():
    """The claims of others must not make a step fail that fits the whole budget."""
    import torch

    import spillway

    activate(BUDGET="48MiB")
    with _forked_that_holds(20 * MIB):
        large = torch.ones(40 * MIB, dtype=torch.uint8)
        assert int(large[-1]) == 1 and spillway.stats().overshoot_bytes == 0


def test_it_is_said_once(starter):
    child = starter.run(_fork_twice, BUDGET="48MiB").require_success()
    said = [line for line in child.stderr.splitlines() if "is shared with processes" in line]
    assert len(said) == 1 and "48 MiB" in said[0], child.stderr


def _fork_twice():
    from tests.faults.pressure import filled

    for _ in range(2):
        with _forked_that_holds(8 * MIB):
            filled(1)


def _report_budget(connection):
    import torch  # noqa: F401 - starts Spillway, as in any program that trains

    import spillway

    connection.send(spillway.stats().budget_bytes)


@in_child(timeout=300)
def test_a_child_of_an_enabled_program_shares_too():
    """enable() sets no variable of its own, except the one by which children find the page."""
    import spillway

    spillway.enable("48MiB")
    assert os.environ["SPILLWAY_BUDGET_PAGE"]
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_report_budget, args=(there,))
    process.start()
    assert here.recv() <= 48 * MIB
    process.join()
    assert process.exitcode == 0
    spillway.disable()
    assert "SPILLWAY_BUDGET_PAGE" not in os.environ


def test_another_program_has_a_budget_of_its_own(starter):
    """Only what multiprocessing starts shares; torchrun's ranks and shell scripts do not."""
    child = starter.run(_start_another, BUDGET="48MiB", timeout=300).require_success()
    assert child.result == [48 * MIB, 0]


def _start_another():
    import subprocess
    import sys

    import spillway

    code = "import torch, spillway; print(spillway.stats().budget_bytes)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(done.stdout), spillway.stats().shared_bytes]
