# SPDX-License-Identifier: Apache-2.0
"""The rules of Perfetto and Chrome's tracing, by the Trace Event Format (docs of the Chromium
project), as far as Spillway writes it."""

import collections
import json
import math

# Times are microseconds with three decimals: nanoseconds, and what floating point makes of them.
_ROUNDING = 0.0015


def flaws(text: str) -> list[str]:
    """Returns the flaws of a file, one line each; nothing if it would be shown as meant."""
    document = json.loads(text)
    found = []
    if document.get("displayTimeUnit") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    events = document["traceEvents"]
    for index, event in enumerate(events):
        found += [f"event {index}: {flaw}" for flaw in _flaws_of_event(event)]
    return found + _flaws_of_pairs(events) + _flaws_of_nesting(events) + _flaws_of_names(events)


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0


def _flaws_of_event(event: dict) -> list[str]:
    found = []
    phase = event.get("ph")
    if phase not in ("X", "B", "E", "M", "C"):
        found.append(f"phase {phase!r}")
    if not isinstance(event.get("name"), str) and phase != "E":
        found.append("no name")
    if not isinstance(event.get("pid"), int):
        found.append("no pid")
    if phase in ("X", "B", "E") and not isinstance(event.get("tid"), int):
        found.append("no tid")
    if phase != "M" and not _is_time(event.get("ts")):
        found.append(f"ts {event.get('ts')!r}")
    if phase == "X" and not _is_time(event.get("dur")):
        found.append(f"dur {event.get('dur')!r}")
    arguments = event.get("args", {})
    if phase == "M" and not isinstance(arguments.get("name"), str):
        found.append("metadata without a name")
    if phase == "C" and (not arguments or not all(map(_is_time, arguments.values()))):
        found.append(f"counter of {arguments!r}")
    return found


def _lanes(events: list[dict], phases: str) -> dict:
    lanes = collections.defaultdict(list)
    for event in events:
        if event["ph"] in phases:
            lanes[event["pid"], event["tid"]].append(event)
    return lanes


def _flaws_of_pairs(events: list[dict]) -> list[str]:
    found = []
    for lane, marks in _lanes(events, "BE").items():
        depth = 0
        for mark in sorted(marks, key=lambda event: event["ts"]):
            depth += 1 if mark["ph"] == "B" else -1
            if depth < 0:
                found.append(f"lane {lane}: an end without a beginning at {mark['ts']}")
        if depth > 0:
            found.append(f"lane {lane}: {depth} beginnings without an end")
    return found


def _flaws_of_nesting(events: list[dict]) -> list[str]:
    """Returns pairs of bars of a lane that overlap, with neither inside the other."""
    found = []
    for lane, bars in _lanes(events, "X").items():
        ends: list[float] = []
        for bar in sorted(bars, key=lambda event: (event["ts"], -event["dur"])):
            while ends and ends[-1] <= bar["ts"] + _ROUNDING:
                ends.pop()
            end = bar["ts"] + bar["dur"]
            if ends and end > ends[-1] + _ROUNDING:
                found.append(f"lane {lane}: {bar['name']} at {bar['ts']} crosses another bar")
            ends.append(end)
    return found


def _flaws_of_names(events: list[dict]) -> list[str]:
    named = {
        (event["pid"], event["tid"])
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    return [f"lane {lane} has no name" for lane in _lanes(events, "XB") if lane not in named]
