# SPDX-License-Identifier: Apache-2.0
"""The budget held against the kernel's own count of a larger program, to a few per cent.

What a process holds besides tensors (the interpreter, libraries, the kernels it has run) is what
the same program with a single layer holds: an import alone runs no kernel and makes no optimizer,
which take some 170 MiB.
"""

from tests.run.launch import require_managed, train

MIB = 1 << 20
DEPTH = 96
SHARE = 0.30
# Books about storages, staging, and what the allocator of C++ keeps. The single layer's tensors,
# some 25 MiB that are subtracted though they are none of it, are not counted against it.
ALLOWED = 32 * MIB


def test_a_large_program_stays_within_its_budget(command, tmp_path):
    small = train(tmp_path / "small", depth=1).require_success()
    whole = train(
        tmp_path / "whole", command, "run", "--mode", "record", "--", depth=DEPTH, steps=2
    ).require_success()
    peak = whole.last_count["peak_device_bytes"]
    assert peak >= 1.5 * (1 << 30), peak
    others = small.report["resident_peak_bytes"]
    # The measure sees tensors: those of the whole program are nearly all there is besides.
    assert abs(whole.report["resident_peak_bytes"] - others - peak) <= 0.05 * peak, (whole, others)

    budget = int(SHARE * peak)
    managed = train(
        tmp_path / "managed", command, "run", "--budget", str(budget), "--", depth=DEPTH, steps=2
    ).require_success()
    assert managed.results == whole.results
    require_managed(managed, budget)
    resident = managed.report["resident_peak_bytes"] - others
    assert resident <= budget + ALLOWED, (
        f"{resident / MIB:.0f} MiB resident, {budget / MIB:.0f} allowed, short by "
        f"{(resident - budget - ALLOWED) / MIB:.0f} MiB"
    )
