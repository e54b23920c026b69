# SPDX-License-Identifier: Apache-2.0
"""The bytes on the tiers with a plan, by the simulator."""

from collections.abc import Iterable
from typing import Any

from spillway.report.contents import MemoryCurve


def device_links(links: Iterable[str]) -> tuple[str, str]:
    """Returns the two of these links that the device's storages leave and return by."""
    if {"device-to-host", "host-to-device"}.isdisjoint(links):
        return "host-to-disk", "disk-to-host"  # it trains on its processor: the disk is next to it
    return "device-to-host", "host-to-device"


def planned_memory(timeline: dict[str, Any], step_ns: int) -> MemoryCurve:
    """The device by role over the simulated step."""
    times = [level[0] for level in timeline.get("levels", ())]
    return _to_the_end(times, timeline.get("roles", {}), step_ns)


def slower_tiers(timeline: dict[str, Any], step_ns: int) -> dict[str, MemoryCurve]:
    """Host and disk, where they hold anything."""
    levels = timeline.get("levels", ())
    times = [level[0] for level in levels]
    return {
        tier: _to_the_end(times, {"held": [level[position] for level in levels]}, step_ns)
        for position, tier in ((2, "host"), (3, "disk"))
        if any(level[position] for level in levels)
    }


def _to_the_end(times: list[int], held: dict[str, list[int]], step_ns: int) -> MemoryCurve:
    if not times:
        return MemoryCurve([], {})
    return MemoryCurve(
        [*times, step_ns], {role: [*values, values[-1]] for role, values in held.items()}
    )
