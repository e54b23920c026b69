# SPDX-License-Identifier: Apache-2.0
"""The disk fails: values stay right, or the program is told. It never hangs."""

import os

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

PASSING = [
    "spool.write=short@2",
    "spool.write=short@1+, spool.read=short@1+",
    "spool.write=EINTR@3, spool.read=EINTR@2",
    "spool.write=EAGAIN@4, spool.read=EIO@5",
    "spool.write=EIO@1, spool.write=EIO@7, spool.read=EAGAIN@2, spool.write=short@9+",
    "spool.write=delay:300us@1+, spool.read=delay:300us@1+",
    "spool.grow=ENOSPC@1",
    "spool.grow=EOPNOTSUPP@1+",
    "spool.open=EOPNOTSUPP@1",
]

# Lasting ones: the copy out never comes about.
NOTHING_LEAVES = ["spool.write=EIO@1+", "spool.write=ENOSPC@1+", "spool.grow=ENOSPC@1+"]


@pytest.mark.parametrize("faults", PASSING)
@in_child
def test_passing_faults_change_nothing(faults):
    """Each of these ends by itself, is retried, or has another way round."""
    from tests.faults.training import BUDGET, require_budget_held, train

    expected = train()
    activate(BUDGET=BUDGET, FAULTS=faults)
    assert train() == expected
    require_budget_held()


@in_child
def test_the_means_that_the_machine_has_are_what_is_tested():
    import spillway
    from tests.faults.training import BUDGET, require_budget_held, train
    from tests.oracle import judge

    activate(BUDGET=BUDGET)
    train()
    require_budget_held()
    stats = spillway.stats()
    judge.used_what_is_there({"pages": stats.pages, "io": stats.io})


@pytest.mark.parametrize("faults", PASSING)
@in_child
def test_threads_and_the_plain_arena_meet_them_too(faults):
    import spillway
    from tests.faults.training import BUDGET, require_budget_held, train
    from tests.oracle import judge
    from tests.oracle.machine import without_huge_pages

    expected = train()
    without_huge_pages()
    activate(BUDGET=BUDGET, FAULTS=faults, IO="threads")
    assert train() == expected
    require_budget_held()
    stats = spillway.stats()
    judge.used({"pages": stats.pages, "io": stats.io}, page_pool=False, io_uring=False)


@in_child
def test_a_failed_copy_out_is_made_later():
    """Errors that no retry mends leave the storage in memory; the next attempt succeeds."""
    from tests.faults.training import BUDGET, require_budget_held, train

    expected = train()
    activate(BUDGET=BUDGET, FAULTS="spool.write=ENOSPC@1, spool.write=EDQUOT@7")
    assert train() == expected
    assert require_budget_held().failed_copies == 2


@pytest.mark.parametrize("faults", NOTHING_LEAVES[1:])  # the retries of EIO take too long here
@in_child(timeout=30)
def test_without_a_disk_tensors_stay(faults):
    """Fuzz mode tries to evict everything after every op, under a budget that needs none of it."""
    import spillway
    from tests.faults.training import train

    expected = train(1, depth=2)
    activate(BUDGET="1GiB", MODE="fuzz", FAULTS=faults)
    assert train(1, depth=2) == expected
    assert spillway.stats().evictions == 0


@pytest.mark.parametrize("faults", NOTHING_LEAVES)
@in_child(timeout=30)
def test_without_a_disk_a_full_budget_is_an_error(faults):
    """A tensor that fits is held with its values; another is refused with the reason."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="12MiB", FAULTS=faults)
    held = []
    reason = ""
    try:
        for value in range(24):
            held.append(filled(value))
    except torch.OutOfMemoryError as error:
        reason = str(error)
    assert "spool file" in reason and "need 1 MiB" in reason, reason
    assert ("Input/output error" if "EIO" in faults else "No space left") in reason, reason
    assert len(held) >= 10
    held.pop()  # comparing takes memory too
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    del held[::2]
    held += [filled(value) for value in (30, 31)]
    assert is_intact(held[-1], 31) and is_intact(held[0], 1)
    assert spillway.stats().overshoot_bytes == 0


@in_child
def test_the_disk_budget_runs_out_in_the_middle():
    """The error says so; with the disk budget raised the same training gives the same values."""
    import torch

    import spillway
    from tests.faults.training import BUDGET, train

    expected = train()
    activate(BUDGET=BUDGET, DISK_BUDGET="6MiB")
    reason = ""
    try:
        train()
    except torch.OutOfMemoryError as error:
        reason = str(error)
    assert "disk budget is spent" in reason and "SPILLWAY_DISK_BUDGET" in reason, reason
    assert spillway.stats().disk_bytes <= 6 << 20
    spillway.enable(BUDGET, disk_budget="1GiB")
    assert train() == expected


@in_child
def test_a_disk_budget_that_suffices_is_kept():
    import spillway
    from tests.faults.training import BUDGET, Training, train

    expected = train()
    activate(BUDGET=BUDGET, DISK_BUDGET="48MiB", FAULTS="spool.grow=delay:1ms@1+")
    training = Training().steps(3)
    assert training.outcome() == expected
    assert 0 < spillway.stats().disk_bytes <= 48 << 20


@in_child
def test_the_spool_that_cannot_be_opened_is_opened_later():
    import spillway
    from tests.faults.training import BUDGET, Training, require_budget_held, train

    expected = train()
    activate(BUDGET=BUDGET, FAULTS="spool.open=EMFILE@1, spool.open=ENFILE@2")
    training = Training()
    errors = []
    while len(training.losses) < 3 and len(errors) < 3:
        try:
            training.step()
        except RuntimeError as error:
            errors.append(str(error))
    assert all("SPILLWAY_SPOOL_DIR" in text and "Too many open files" in text for text in errors)
    assert training.outcome() == expected
    assert require_budget_held().evictions, spillway.stats()


def _hold(count):
    from tests.faults.pressure import filled

    return [filled(value) for value in range(count)]


def _read_all(held):
    """For each tensor: True for its value, False for a wrong one, the text of an error."""
    from tests.faults.pressure import is_intact

    results = []
    for value, tensor in enumerate(held):
        try:
            results.append(is_intact(tensor, value))
        except RuntimeError as error:
            results.append(f"{type(error).__name__}: {error}")
    return results


@in_child
def test_a_read_error_names_the_storage_and_passes():
    """Four failures in a row exhaust the retries of one read. The next attempt finds the bytes."""
    activate(BUDGET="12MiB", FAULTS=", ".join(f"spool.read=EIO@{n}" for n in range(3, 7)))
    held = _hold(24)
    results = _read_all(held)
    failed = [result for result in results if result is not True]
    assert len(failed) == 1, results
    assert not failed[0].startswith("OutOfMemoryError"), "no smaller batch mends a disk"
    assert "storage" in failed[0] and "1 MiB" in failed[0], failed
    assert "reading" in failed[0] and "Input/output error" in failed[0], failed
    assert _read_all(held) == [True] * 24


@in_child(timeout=30)
def test_a_lasting_read_error_is_never_a_value():
    activate(BUDGET="12MiB", FAULTS="spool.read=EIO@4+")
    held = _hold(24)
    for _ in range(2):
        results = _read_all(held)
        assert False not in results, results
        assert results.count(True) >= 3, results
        assert any(result is not True for result in results)


@in_child
def test_verify_mode_finds_bytes_that_changed_on_the_disk():
    import spillway
    from tests.faults.pressure import spool_descriptors

    activate(BUDGET="12MiB", MODE="verify")
    held = _hold(24)
    (descriptor,) = spool_descriptors()
    size = os.fstat(descriptor).st_size
    again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)  # without O_DIRECT
    for offset in range(0, min(size, 24 << 20), 1 << 20):
        os.pwrite(again, b"\x5a", offset + 12345)
    os.fsync(again)
    results = _read_all(held)
    assert False not in results, results
    assert any("checksum differs" in str(result) for result in results), results
    assert spillway.stats().checksums_compared > 0


@in_child
def test_memory_that_cannot_be_mapped_is_an_error_and_passes():
    from tests.faults.training import BUDGET, Training, train

    expected = train()
    activate(BUDGET=BUDGET, FAULTS="arena.map=ENOMEM@40, arena.map=ENOMEM@60")
    training = Training()
    errors = []
    while len(training.losses) < 3 and len(errors) < 3:
        before = len(training.losses)
        try:
            training.step()
        except RuntimeError as error:
            assert "Spillway" in str(error)
            errors.append(str(error))
            training = Training().steps(before)  # the optimizer may have done half a step
    assert 1 <= len(errors) <= 2, errors
    assert training.outcome() == expected
