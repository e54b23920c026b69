# SPDX-License-Identifier: Apache-2.0
"""What the device holds with a plan, by role: worked out from a simulation's spans.

The simulation tells totals; which storages make them up follows from when ops ran, when copies
began and ended, and what the plan dropped.
"""

import bisect
from collections.abc import Iterable
from typing import Any

from spillway.report.contents import MemoryCurve
from spillway.report.trace_file import Trace


def device_links(links: Iterable[str]) -> tuple[str, str]:
    """Which of these links the device's storages leave and return by."""
    if {"device-to-host", "host-to-device"}.isdisjoint(links):
        return "host-to-disk", "disk-to-host"  # it trains on its processor: the disk is next to it
    return "device-to-host", "host-to-device"


def planned_memory(
    trace: Trace, plan: dict[str, Any], spans: list[dict[str, Any]], step_ns: int
) -> MemoryCurve:
    """The device by role over the simulated step."""
    return _Residency(trace, plan, spans, step_ns).curve()


class _Residency:
    def __init__(self, trace, plan, spans, step_ns) -> None:
        self._trace = trace
        self._plan = plan
        self._step_ns = step_ns
        self._changes: list[tuple[int, int, str, int]] = []  # time, order, role, bytes
        self._resident: set[int] = set()
        self._events = self._in_order(spans)

    def _in_order(self, spans) -> list[tuple[int, int, str, int]]:
        """(time, rank, what, id): at one time memory is given up before it is taken."""
        events: list[tuple[int, int, str, int]] = []
        begins = [0] * (len(self._trace.ops) + 1)
        begins[-1] = self._step_ns
        copied_out: dict[int, list[int]] = {}
        out, back = device_links({span["link"] for span in spans if span["kind"] == "copy"})
        for span in spans:
            kind = span["kind"]
            if kind == "op":
                begins[span["op"]] = span["begin"]
                events.append((span["begin"], 3, "begin", span["op"]))
                events.append((span["end"], 0, "end", span["op"]))
            elif kind == "replay":
                events.append((span["begin"], 3, "replay", span["op"]))
            elif kind == "copy" and span["link"] == out:
                events.append((span["end"], 1, "leave", span["storage"]))
                copied_out.setdefault(span["storage"], []).append(span["begin"])
            elif kind == "copy" and span["link"] == back:
                events.append((span["begin"], 2, "arrive", span["storage"]))
        for action in self._plan.get("actions", ()):
            at = begins[min(action["at"], len(begins) - 1)]
            storage = action.get("storage")
            if action["do"] == "drop":
                events.append((at, 1, "leave", storage))
            elif action["do"] == "evict":
                copies = sorted(copied_out.get(storage, ()))
                # Clean: no copy follows this eviction, the memory is free at once.
                if bisect.bisect_left(copies, at) == len(copies):
                    events.append((at, 1, "leave", storage))
        return sorted(events, key=lambda event: event[:2])

    def curve(self) -> MemoryCurve:
        trace = self._trace
        created = {s for op in trace.ops for s in op.get("creates", ())}
        away = {
            place["storage"]
            for place in self._plan.get("places", ())
            if "device" not in place.get("tiers", ("device",))
        }
        held = dict.fromkeys({trace.role(s) for s in range(len(trace.storages))} | {"workspace"}, 0)
        curve = MemoryCurve([], {role: [] for role in held})

        def move(storage: int, arrives: bool) -> None:
            if arrives == (storage in self._resident):
                return
            (self._resident.add if arrives else self._resident.discard)(storage)
            size = trace.storages[storage]["bytes"]
            held[trace.role(storage)] += size if arrives else -size

        for storage in range(len(trace.storages)):
            if storage not in created and storage not in away:
                move(storage, True)
        last = 0
        for time, _, what, identity in [*self._events, (self._step_ns, 9, "", 0)]:
            if time != last or not curve.times:
                self._note(curve, last, held)
                last = time
            if what in ("begin", "replay"):
                for storage in trace.ops[identity].get("creates", ()):
                    move(storage, True)
                if what == "begin":
                    held["workspace"] += trace.ops[identity].get("alloc_peak", 0)
            elif what == "end":
                held["workspace"] -= trace.ops[identity].get("alloc_peak", 0)
                for storage in trace.ops[identity].get("frees", ()):
                    move(storage, False)
            elif what:
                move(identity, what == "arrive")
        self._note(curve, self._step_ns, held)
        return curve

    @staticmethod
    def _note(curve: MemoryCurve, time: int, held: dict[str, int]) -> None:
        if curve.times and curve.times[-1] == time:
            for role, values in curve.bytes.items():
                values[-1] = held[role]
            return
        curve.times.append(time)
        for role, values in curve.bytes.items():
            values.append(held[role])
