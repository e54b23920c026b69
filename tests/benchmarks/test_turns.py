# SPDX-License-Identifier: Apache-2.0
"""Turns are fair: who goes first alternates, and each turn pays for its own transfers."""

import importlib
import itertools

import pytest


class FakeWorker:
    def __init__(self, name, seconds, calls):
        self.name, self.seconds, self.calls = name, seconds, calls

    def run(self, steps, timeout):
        self.calls.append((self.name, steps))
        return [self.seconds] * steps, {"turns": len(self.calls)}


def test_who_goes_first_alternates():
    paired_runs = importlib.import_module("paired_runs")
    calls = []
    first, second = FakeWorker("a", 1.0, calls), FakeWorker("b", 3.0, calls)
    done = paired_runs.turns(first, second, 4, 2)
    assert calls[0] == ("b", 1), "its counters before the first turn"
    assert [name for name, _ in calls[1:]] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert [turn.ratio for turn in done] == [3.0] * 4
    for earlier, later in itertools.pairwise(done):
        assert later.before == earlier.after, "counters of the second's turns follow each other"


def test_rounds_of_one_pair_can_alternate_too():
    paired_runs = importlib.import_module("paired_runs")
    calls = []
    first, second = FakeWorker("a", 1.0, calls), FakeWorker("b", 3.0, calls)
    paired_runs.turns(first, second, 1, 2, second_begins=True)
    assert [name for name, _ in calls[1:]] == ["b", "a"]


class FakeDisk:
    """Moves a megabyte every 30 ms, `count` times."""

    def __init__(self, count):
        self.now, self.count = 0.0, count

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def moved(self):
        return min(int(self.now / 0.030), self.count) << 20


@pytest.mark.parametrize("count", [1, 20])
def test_a_turn_lasts_until_its_transfers_have_ended(count):
    settle = importlib.import_module("step_protocol").settle
    disk = FakeDisk(count)
    end = settle(-1, disk.moved, disk.clock, disk.sleep)
    assert end == pytest.approx(count * 0.030, abs=0.002), "when the last byte moved, not later"
    assert disk.now >= end + 0.1


def test_a_turn_without_transfers_ends_at_once():
    settle = importlib.import_module("step_protocol").settle
    disk = FakeDisk(0)
    assert settle(0, disk.moved, disk.clock, disk.sleep) == 0.0
    assert disk.now == 0.0
