# SPDX-License-Identifier: Apache-2.0
"""The checker of trace-event files finds what it is there to find, and our files pass it."""

import json

import pytest

from spillway.report import gather, perfetto

from . import trace_events

LANE = {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "compute"}}


def bar(ts, dur, **changes):
    return {"ph": "X", "pid": 1, "tid": 1, "name": "op", "ts": ts, "dur": dur, **changes}


def flaws(*events):
    return trace_events.flaws(json.dumps({"displayTimeUnit": "ms", "traceEvents": [LANE, *events]}))


def test_bars_may_touch_and_hold_each_other():
    assert flaws(bar(0, 10), bar(10, 5), bar(11, 2)) == []
    assert flaws(bar(0.1, 0.2), bar(0.3, 0.1)) == []  # 0.1 + 0.2 > 0.3 by a rounding


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (bar(-1, 5), "ts -1"),
        (bar(0, -5), "dur -5"),
        (bar(0, float("inf")), "dur inf"),
        (bar(0, 1, ph="Z"), "phase 'Z'"),
        (bar(0, 1, tid=None), "no tid"),
        (bar(0, 1, pid="a"), "no pid"),
        (bar(0, 1, tid=2), "has no name"),
        ({"ph": "C", "pid": 1, "name": "memory", "ts": 0, "args": {}}, "counter"),
        ({"ph": "B", "pid": 1, "tid": 1, "name": "op", "ts": 0}, "1 beginnings without an end"),
        ({"ph": "E", "pid": 1, "tid": 1, "ts": 0}, "an end without a beginning"),
    ],
)
def test_what_is_wrong_is_found(event, told):
    found = flaws(event)
    assert any(told in flaw for flaw in found), found


def test_bars_that_cross_are_found():
    assert any("crosses" in flaw for flaw in flaws(bar(0, 10), bar(5, 10)))


@pytest.mark.parametrize("subject", ["TRACE", "PLAN"])
def test_the_reports_own_file_is_accepted(files, subject):
    report = gather.report(files[subject], trace=files["TRACE"])
    assert trace_events.flaws(perfetto.trace_events(report)) == []
