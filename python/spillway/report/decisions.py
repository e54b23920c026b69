# SPDX-License-Identifier: Apache-2.0
"""What a plan does with each storage, in words."""

from typing import Any

from spillway.report.contents import Decision
from spillway.report.quantities import duration
from spillway.report.trace_file import Trace


def decisions(
    trace: Trace, plan: dict[str, Any], starts: list[int], most: int = 1500
) -> tuple[list[Decision], int]:
    """The largest storages first, and how many more there are."""
    actions: dict[int, list[dict[str, Any]]] = {}
    for action in plan.get("actions", ()):
        if "storage" in action:
            actions.setdefault(action["storage"], []).append(action)
    places = {place["storage"]: place.get("tiers", []) for place in plan.get("places", ())}
    order = sorted(range(len(trace.storages)), key=lambda s: -trace.storages[s]["bytes"])
    rows = [
        _decision(trace, storage, actions.get(storage, []), places.get(storage), starts)
        for storage in order[:most]
    ]
    return rows, max(0, len(trace.storages) - len(rows))


def _decision(trace, storage, actions, tiers, starts) -> Decision:
    size = trace.storages[storage]["bytes"]
    kinds: list[str] = []
    moved = 0
    leaves = returns = None
    away = "disk" if tiers and "disk" in tiers and "host" not in tiers else "host"
    for action in actions:
        kind, at = action["do"], action["at"]
        if kind == "evict":
            away = action.get("tier", "host")
            kinds.append(away)
            moved += size
            leaves = at if leaves is None else leaves
        elif kind == "demote":
            away = "disk"
            kinds.append(away)
        elif kind == "fetch":
            kinds.append(away)
            moved += size
            returns = at
        elif kind == "drop":
            kinds.append("recompute")
            leaves = at if leaves is None else leaves
    if not kinds and tiers is not None and "device" not in tiers:
        kinds.append(tiers[0] if tiers else "given up")
    words = list(dict.fromkeys(kinds)) or ["keep"]
    return Decision(
        storage=trace.storage_name(storage),
        role=trace.role(storage),
        bytes=size,
        decision=", ".join(words),
        leaves="" if leaves is None else trace.op_name(max(leaves - 1, 0)),
        returns="" if returns is None else trace.op_name(returns),
        moved_bytes=moved,
        reason=_reason(words, leaves, returns, starts),
    )


def _reason(words: list[str], leaves: int | None, returns: int | None, starts: list[int]) -> str:
    if words == ["keep"]:
        return "stays on the device"
    if leaves is not None and returns is not None:
        idle = starts[returns] - starts[leaves]
        if idle > 0:
            return f"not needed for {duration(idle)} in between"
        return f"not needed for {duration(starts[-1] + idle)}, over the end of the step"
    if words == ["given up"]:
        return "freed unused"
    if "recompute" in words:
        return "made again when it is needed"
    return "begins the step there"
