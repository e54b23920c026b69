# SPDX-License-Identifier: Apache-2.0
"""The sizes, budgets and times reached here for each published row, worked out from the kept
recordings.
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable

from . import kept
from .affine import peak_bytes
from .reach import Chosen, Largest, Limits, Planned, Reach
from .rows import MemoryRow, Row

HYBRID = "hybrid"
_MACHINES = pathlib.Path(__file__).parent.parent / "machines"

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class SizeOutcome:
    """The largest sizes of the network, by the names of planners."""

    row: Row
    without: Largest
    largest: dict[str, Largest]


@dataclasses.dataclass(frozen=True)
class SpeedOutcome:
    """The times of the step at one published size."""

    row: Row
    value: int
    at: int  #: the recorded size nearest to it
    without_ns: int  #: on a device without limit
    planned: dict[str, Planned | None]


@dataclasses.dataclass(frozen=True)
class MemoryOutcome:
    """The least device memory that one step can do with."""

    row: MemoryRow
    without_bytes: int
    smallest_bytes: dict[str, int]


def planners_of(row: Row | MemoryRow) -> tuple[Chosen, ...]:
    """The rendition of the paper's planner with the paper's options, and ours."""
    options = row.options if isinstance(row, Row) else ()
    return Chosen(row.planner, options), Chosen(HYBRID)


@functools.cache
def device_bytes(machine: str) -> int:
    """Capacity of the machine's device, from its file."""
    text = (_MACHINES / f"{machine}.json").read_text(encoding="utf-8")
    return json.loads(text)["device"]["capacity"]["bytes"]


def of_row(row: Row, progress: Progress) -> tuple[SizeOutcome, list[SpeedOutcome]]:
    """Both kinds of figures of a row: sizes, and speeds at the published sizes."""
    recording = kept.of_row(row)
    limits = Limits(row.machine, device_bytes(row.machine), row.host_bytes)
    with Reach(recording, limits) as reach:
        progress(f"{row.title}: the largest without a plan")
        without = reach.largest(reach.fits_without, row.published_base or row.published)
        largest = {}
        for planner in planners_of(row):
            progress(f"{row.title}: the largest with {planner.name}")
            fits = functools.partial(reach.fits, planner)
            largest[planner.name] = reach.largest(fits, row.published)
        speeds = []
        for value in row.speed_values:
            at = recording.nearest(value)
            progress(f"{row.title}: the step at {at}")
            planned = {planner.name: reach.plan(planner, at) for planner in planners_of(row)}
            speeds.append(SpeedOutcome(row, value, at, reach.step_ns(at), planned))
    return SizeOutcome(row, without, largest), speeds


def of_memory_row(row: MemoryRow, progress: Progress) -> MemoryOutcome:
    """The smallest device memory at one size."""
    recording = kept.of_row(row)
    limits = Limits(row.machine, device_bytes(row.machine), row.host_bytes)
    peak = peak_bytes(recording.trace_at(row.value))
    with Reach(recording, limits) as reach:
        smallest = {}
        for planner in planners_of(row):
            progress(f"{row.title}: the least memory with {planner.name}")
            smallest[planner.name] = reach.smallest_budget(planner, row.value, peak)
    return MemoryOutcome(row, peak, smallest)
