# SPDX-License-Identifier: Apache-2.0
"""A plan's decision for each storage, in words."""

import bisect
import dataclasses
from typing import Any

from spillway.report.contents import Decision
from spillway.report.planned_memory import device_links
from spillway.report.quantities import duration
from spillway.report.trace_file import Trace


@dataclasses.dataclass
class _Absence:
    """Ops are counted from the beginning of the step; those of the next step go on behind its last.

    `leaves`, `returns`: before which op. `idle`: from the end of the last use to the next one.
    """

    words: list[str]
    leaves: int
    returns: int | None = None
    idle: int = 0


def decisions(
    trace: Trace,
    plan: dict[str, Any],
    spans: list[dict[str, Any]],
    starts: list[int],
    most: int = 5000,
) -> list[Decision]:
    """Storages with a decision come first, then those that stay; within both the largest first.
    `most` rows.
    """
    moved = _moved(spans)
    table = _Table(trace, plan, starts)
    order = sorted(
        range(len(trace.storages)),
        key=lambda s: (not (table.decides(s) or s in moved), -trace.storages[s]["bytes"]),
    )
    return [table.row(storage, moved.get(storage, 0)) for storage in order[:most]]


def _moved(spans: list[dict[str, Any]]) -> dict[int, int]:
    """Returns how often a copy of each storage crosses a link of the device."""
    copies = [span for span in spans if span["kind"] == "copy"]
    links = device_links({span["link"] for span in copies})
    moved: dict[int, int] = {}
    for span in copies:
        if span["link"] in links:
            moved[span["storage"]] = moved.get(span["storage"], 0) + 1
    return moved


class _Table:
    def __init__(self, trace: Trace, plan: dict[str, Any], starts: list[int]) -> None:
        self._trace = trace
        self._starts = starts
        self._places = {
            place["storage"]: place.get("tiers", []) for place in plan.get("places", ())
        }
        self._uses: dict[int, list[int]] = {}
        created, freed = set(), set()
        for index, op in enumerate(trace.ops):
            for storage in {s for what in _USES for s in op.get(what, ())}:
                self._uses.setdefault(storage, []).append(index)
            created.update(op.get("creates", ()))
            freed.update(op.get("frees", ()))
        #: What a storage is in the next step, if it lives on.
        self._next_row: dict[int, int] = {}
        for storage, row in enumerate(trace.storages):
            if storage not in created and storage not in freed:
                self._next_row[storage] = storage
            elif "continues" in row:
                self._next_row[storage] = row["continues"]
        self._row_before = {after: before for before, after in self._next_row.items()}
        self._actions: dict[int, list[dict[str, Any]]] = {}
        for action in plan.get("actions", ()):
            for storage in self._concerned(action):
                self._actions.setdefault(storage, []).append(action)
        # A recomputation may make what was never dropped, for another recomputation alone.
        for storage in [s for s, done in self._actions.items() if all(map(_is_recompute, done))]:
            del self._actions[storage]

    def _concerned(self, action: dict[str, Any]) -> list[int]:
        if _is_recompute(action):
            return self._trace.ops[action["op"]].get("creates", [])
        return [action["storage"]] if "storage" in action else []

    def decides(self, storage: int) -> bool:
        tiers = self._places.get(storage)
        return storage in self._actions or (tiers is not None and "device" not in tiers)

    def row(self, storage: int, copies: int) -> Decision:
        size = self._trace.storages[storage]["bytes"]
        absences = self._absences(storage)
        words = list(dict.fromkeys(word for each in absences for word in each.words)) or ["keep"]
        longest = max(absences, key=lambda each: each.idle, default=None)
        leaves = returns = ""
        if longest is not None:
            if longest.leaves >= 0:
                leaves = self._trace.op_name(max(longest.leaves - 1, 0))
            if longest.returns is not None:
                returns = self._trace.op_name(longest.returns % max(len(self._trace.ops), 1))
        return Decision(
            storage=self._trace.storage_name(storage),
            role=self._trace.role(storage),
            bytes=size,
            decision=", ".join(words),
            leaves=leaves,
            returns=returns,
            moved_bytes=size * copies,
            reason=self._reason(longest, len(absences)),
        )

    def _absences(self, storage: int) -> list[_Absence]:
        found: list[_Absence] = []
        actions = self._actions.get(storage, [])
        begun = self._begun_elsewhere(storage, actions)
        if begun:
            found.append(begun)
        for position, action in enumerate(actions):
            kind, at = action["do"], action["at"]
            last = found[-1] if found else None
            away = last is not None and (last.returns is None or at < last.returns)
            if kind == "demote" and last is not None:
                last.words.append("disk")
            elif kind in ("evict", "drop") and not away:
                found.append(self._departure(storage, action, actions[position + 1 :]))
            elif kind == "evict" and last is not None:
                last.words.append(action.get("tier", "host"))
            elif kind == "drop" and last is not None:
                # On a slower tier until here.
                last.words += self._departure(storage, action, actions[position + 1 :]).words
        return found

    def _begun_elsewhere(self, storage: int, actions: list[dict[str, Any]]) -> _Absence | None:
        """Returns the absence of a storage that begins the step away and leaves in no row."""
        tiers = self._places.get(storage)
        if tiers is None or "device" in tiers:
            return None
        first = next(iter(self._uses.get(storage, ())), None)
        returns = _first_return(actions, first)
        absence = _Absence([tiers[0] if tiers else "given up"], -1, returns)
        before = self._row_before.get(storage)
        if before is not None and first is not None:
            used = self._uses.get(before)
            since = used[-1] + 1 if used else 0
            absence.idle = self._time(first + len(self._trace.ops)) - self._time(since)
            left = [a["at"] for a in self._actions.get(before, ()) if a["do"] in ("evict", "drop")]
            absence.leaves = left[-1] if left else -1
            absence.returns = None if returns is None else returns + len(self._trace.ops)
        return absence

    def _departure(self, storage: int, action: dict, later: list[dict]) -> _Absence:
        at = action["at"]
        uses = self._uses.get(storage, [])
        following = bisect.bisect_left(uses, at)
        needed = uses[following] if following < len(uses) else None
        returns = _first_return(later, needed)
        if action["do"] == "drop":
            recomputed = any(map(_is_recompute, later))
            absence = _Absence(["recompute" if recomputed else "given up"], at, returns)
            if not recomputed:
                return dataclasses.replace(absence, returns=None)
        else:
            absence = _Absence([action.get("tier", "host")], at, returns)
        if needed is None and returns is None:
            needed = self._next_step_use(storage)
            if needed is not None:
                after = self._next_row[storage]
                again = _first_return(self._actions.get(after, []), needed - len(self._trace.ops))
                absence.returns = None if again is None else again + len(self._trace.ops)
        until = needed if needed is not None else absence.returns
        if until is not None:
            since = uses[following - 1] + 1 if following else at
            absence.idle = self._time(until) - self._time(since)
        return absence

    def _next_step_use(self, storage: int) -> int | None:
        uses = self._uses.get(self._next_row.get(storage, -1))
        return uses[0] + len(self._trace.ops) if uses else None

    def _time(self, op: int) -> int:
        """When an op begins where nothing stalls; ops of the next step are counted on."""
        steps, within = divmod(op, max(len(self._trace.ops), 1))
        return steps * self._starts[-1] + self._starts[within]

    def _reason(self, longest: _Absence | None, count: int) -> str:
        if longest is None:
            return "stays on the device"
        if longest.idle > 0:
            over = longest.returns is not None and longest.returns >= len(self._trace.ops)
            text = f"not needed for {duration(longest.idle)}"
            text += ", over the end of the step" if over else " in between"
            if "recompute" in longest.words:
                text += ", then made again"
            return text + (f"; the longest of {count} times" if count > 1 else "")
        if longest.leaves < 0:
            return "begins the step there" if longest.words != ["given up"] else "freed unused"
        return "not needed any more" if longest.returns is None else "room for others"


_USES = ("creates", "reads", "writes")


def _is_recompute(action: dict[str, Any]) -> bool:
    return action["do"] == "recompute"


def _first_return(later: list[dict[str, Any]], needed: int | None) -> int | None:
    """Before which op it is asked for again: by the plan, else by the op that needs it."""
    for action in later:
        if needed is not None and action["at"] > needed:
            break
        if action["do"] in ("fetch", "recompute"):
            return action["at"]
        if action["do"] == "drop":
            break
    return needed
