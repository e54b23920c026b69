# SPDX-License-Identifier: Apache-2.0
"""A device that is too small for the program, emulated, with host memory below it."""

from tests.run.launch import train

MIB = 1 << 20
DEVICE = 96 * MIB


def _on_device(command, folder, *flags, device=DEVICE):
    return train(folder / "report", command, "run", "--emulate-device", str(device), *flags, "--")


def _require_held(run, peak):
    """The device's size was held, and what does not fit was moved."""
    for count in run.report["counts"]:
        assert count["budget_bytes"] == DEVICE, count
        assert count["peak_device_bytes"] <= DEVICE and count["overshoot_bytes"] == 0, count
    left = run.last_count["evicted_bytes"] + run.last_count["clean_evicted_bytes"]
    assert left >= peak - DEVICE, run.last_count
    assert run.last_count["fetched_bytes"] > 0, run.last_count


def test_stock_runs_out_of_memory(command, stock, peak, tmp_path):
    """Nothing is managed, but the device has an end: one smaller than the peak does not do."""
    assert peak > 2 * DEVICE
    small = _on_device(command, tmp_path, "--mode", "off")
    assert small.status == 1, small.stderr[-2000:]
    assert "torch.OutOfMemoryError" in small.stderr, small.stderr[-2000:]
    assert "(budget 96 MiB)" in small.stderr and not small.report, small.stderr[-2000:]
    # The remedy is to let it be managed; a budget was not short.
    assert "Unset SPILLWAY_MODE=off, which moves nothing" in small.stderr, small.stderr[-2000:]
    assert "SPILLWAY_BUDGET" not in small.stderr, small.stderr[-2000:]
    assert "nothing: mode off moves nothing" in small.stderr, small.stderr[-2000:]
    # Where it suffices the same way of running does: it was the size, and nothing else.
    large = _on_device(command, tmp_path, "--mode", "off", device=2 * peak).require_success()
    assert large.results == stock.results
    assert large.last_count["mode"] == "off" and large.last_count["evicted_bytes"] == 0


def test_what_does_not_fit_lies_in_host_memory(command, stock, peak, tmp_path):
    managed = _on_device(command, tmp_path, "--host-budget", "1GiB").require_success()
    assert managed.results == stock.results
    _require_held(managed, peak)
    assert managed.last_count["stall_ns"] > 0, managed.last_count
    # Storages that live between steps are more than the device holds: the rest is on the host.
    assert managed.last_count["host_bytes"] > 0, managed.last_count
    assert managed.last_count["disk_written_bytes"] == 0, managed.last_count
    assert managed.last_count["disk_bytes"] == 0, managed.last_count


def test_where_host_memory_ends_too_the_disk_goes_on(command, stock, peak, tmp_path):
    managed = _on_device(
        command, tmp_path, "--host-budget", "48MiB", "--spool-dir", str(tmp_path)
    ).require_success()
    assert managed.results == stock.results
    _require_held(managed, peak)
    for count in managed.report["counts"]:
        assert 0 < count["host_bytes"] <= 48 * MIB, count
    assert managed.last_count["disk_written_bytes"] > 0, managed.last_count
    assert managed.last_count["disk_bytes"] > 0, managed.last_count
