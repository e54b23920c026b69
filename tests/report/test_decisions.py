# SPDX-License-Identifier: Apache-2.0
"""The table of plans small enough to check by hand."""

import pytest

from spillway.report.decisions import decisions
from spillway.report.trace_file import Trace

# Ops 0 to 5 take 100 each. a is used by 0, 2 and 5; b by 0 and 3; w lives on, used by 1 and 4.
# g is left by a step for the next, which has it as h.
NAMES = ("a", "b", "w", "g", "h", "big")
A, B, W, G, H, BIG = range(6)
TRACE = Trace.from_json(
    {
        "spillway_trace": 2,
        "storages": [
            {"bytes": 100, "name": "a"},
            {"bytes": 50, "name": "b"},
            {"bytes": 400, "name": "w", "persistent": True},
            {"bytes": 10, "name": "g", "continues": H},
            {"bytes": 10, "name": "h"},
            {"bytes": 10_000, "name": "big", "persistent": True},
        ],
        "ops": [
            {"name": "op", "creates": [A, B]},
            {"name": "op", "reads": [W, H], "frees": [H]},
            {"name": "op", "reads": [A]},
            {"name": "op", "reads": [B]},
            {"name": "op", "writes": [W], "creates": [G]},
            {"name": "op", "reads": [A], "frees": [A, B]},
        ],
    },
    "sample",
)
STARTS = [0, 100, 200, 300, 400, 500, 600]


def act(at, do, storage, **more):
    return {"at": at, "do": do, "storage": storage, **more}


def out(storage):
    return {"kind": "copy", "storage": storage, "link": "device-to-host", "begin": 0, "end": 1}


def back(storage):
    return {**out(storage), "link": "host-to-device"}


def rows(*actions, spans=(), places=(), most=100):
    plan = {"actions": sorted(actions, key=lambda action: action["at"]), "places": list(places)}
    return {row.storage: row for row in decisions(TRACE, plan, list(spans), STARTS, most)}


def test_what_stays():
    row = rows()["a"]
    assert (row.decision, row.moved_bytes, row.leaves, row.returns) == ("keep", 0, "", "")
    assert row.reason == "stays on the device"


def test_what_is_given_up_is_told_from_what_is_made_again():
    again = rows(act(1, "drop", A), act(2, "recompute", None, op=0))
    assert again["a"].decision == "recompute"
    assert (again["a"].leaves, again["a"].returns) == ("0 op", "2 op")
    assert again["a"].reason == "not needed for 100 ns in between, then made again"
    assert (
        again["b"].decision == "keep"
    )  # the recomputation makes it as well, but it was never away
    gone = rows(act(4, "drop", B))["b"]
    assert (gone.decision, gone.returns, gone.reason) == ("given up", "", "not needed any more")
    both = rows(act(1, "drop", A), act(2, "recompute", None, op=0), act(6, "drop", A))["a"]
    assert both.decision == "recompute, given up"


def test_what_was_evicted_and_then_given_up():
    row = rows(act(1, "evict", B, tier="host"), act(4, "drop", B))["b"]
    assert row.decision.split(", ")[0] == "host"
    assert "given up" in row.decision


def test_moved_is_what_copies_carry():
    dirty = rows(act(1, "evict", A, tier="host"), spans=[out(A), back(A)])["a"]
    clean = rows(act(1, "evict", A, tier="host"), spans=[back(A)])["a"]
    on_demand_alone = rows(spans=[back(A)])["a"]
    assert (dirty.moved_bytes, clean.moved_bytes, on_demand_alone.moved_bytes) == (200, 100, 100)


def test_the_longest_absence_is_told_not_all_from_first_to_last():
    twice = rows(
        act(1, "evict", A, tier="host"), act(2, "fetch", A),
        act(3, "evict", A, tier="host"), act(5, "fetch", A),
    )["a"]  # fmt: skip
    assert (twice.leaves, twice.returns) == ("2 op", "5 op")
    assert twice.reason == "not needed for 200 ns in between; the longest of 2 times"


def test_a_use_brings_it_back_where_the_plan_does_not():
    row = rows(act(3, "evict", A, tier="host"), spans=[out(A), back(A)])["a"]
    assert (row.leaves, row.returns) == ("2 op", "5 op")
    assert row.reason == "not needed for 200 ns in between"


@pytest.mark.parametrize("asked", [(), (act(0, "fetch", W),)], ids=["on-demand", "planned"])
def test_an_absence_over_the_end_of_the_step(asked):
    row = rows(act(5, "evict", W, tier="host"), *asked, places=[{"storage": W, "tiers": ["host"]}])
    assert row["w"].reason == "not needed for 200 ns, over the end of the step"
    assert (row["w"].leaves, row["w"].returns) == ("4 op", "0 op" if asked else "1 op")
    assert row["w"].decision == "host"


def test_what_another_row_left_behind():
    found = rows(act(5, "evict", G, tier="host"), places=[{"storage": H, "tiers": ["host"]}])
    for name in "gh":
        assert found[name].reason == "not needed for 200 ns, over the end of the step"
        assert (found[name].leaves, found[name].returns) == ("4 op", "1 op")


def test_what_goes_on_to_the_disk():
    row = rows(act(1, "evict", B, tier="host"), act(2, "demote", B), act(3, "fetch", B))["b"]
    assert row.decision == "host, disk"


def test_what_is_decided_comes_first_and_is_kept_where_rows_are_few():
    names = list(rows(act(1, "evict", B, tier="host"), act(1, "evict", A, tier="host"), most=3))
    assert names == ["a", "b", "big"]
