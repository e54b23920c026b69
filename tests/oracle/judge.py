# SPDX-License-Identifier: Apache-2.0
"""The conditions of a run, each with a text that says what was expected and what to do next."""

from tests.oracle import machine
from tests.oracle.compare import differences
from tests.oracle.launch import MIB, required_statistics
from tests.oracle.schedule import resident_allowance


def same_bits(expected, actual, child):
    """Losses, gradients, weights, buffers and optimizer state are equal bit for bit."""
    found = differences(expected, actual)
    assert not found, (
        f"{len(found)} of {len(expected['digests']) + 1} results differ from the unmanaged run: "
        f"{'; '.join(found[:6])}\n  to repeat: {child.command}"
    )


def was_managed(child, peak, budget):
    """A run that fits without moving what exceeds the budget was not under it."""
    assert budget < peak, (
        f"nothing to evict: budget {budget / MIB:.1f} MiB (never below 1.15 x the largest working "
        f"set) is not below the peak of {peak / MIB:.1f} MiB"
    )
    need = peak - budget
    assert child.moved_bytes >= need, (
        f"not managed: moved {child.moved_bytes / MIB:.1f} MiB, but peak less budget is "
        f"{need / MIB:.1f} MiB\n  to repeat: {child.command}"
    )


def used(stats, page_pool, io_uring):
    """Pages came from the page pool, or else from the plain arena; transfers by io_uring, or else
    by threads. None: nothing was moved, so nothing is said of transfers."""
    told = f"pages: {stats['pages']}; io: {stats['io']}"
    assert stats["pages"].startswith("page pool" if page_pool else "plain arena"), told
    if io_uring is not None:
        assert stats["io"].startswith("io_uring" if io_uring else "threads"), told


def used_what_is_there(stats, moved=True):
    """The features that `spillway doctor` names were in use, so they were tested."""
    used(stats, machine.has_page_pool(), machine.has_io_uring() if moved else None)


def budget_held(child, budget, idle_bytes):
    """By the engine's own count, and by what the kernel says of the process."""
    stats = required_statistics(child)
    assert stats["budget_bytes"] == budget
    assert stats["peak_device_bytes"] <= budget, (
        f"peak {stats['peak_device_bytes']} exceeds the budget of {budget} bytes by "
        f"{stats['peak_device_bytes'] - budget}\n  to repeat: {child.command}"
    )
    assert stats["overshoot_bytes"] == 0, f"overshot\n  to repeat: {child.command}"
    resident = child.report["vm_hwm_bytes"] - idle_bytes
    allowed = resident_allowance(budget)
    assert resident <= allowed, (
        f"the process held {resident / MIB:.0f} MiB more than an idle one; budget "
        f"{budget / MIB:.0f} MiB allows {allowed / MIB:.0f}, short by "
        f"{(resident - allowed) / MIB:.0f} MiB\n  to repeat: {child.command}"
    )
