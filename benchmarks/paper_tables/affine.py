# SPDX-License-Identifier: Apache-2.0
"""A trace as a function of one size, from recordings of two.

Storages, operations and bytes touched of a network grow affinely with its batch (or with the number
of voxels): parameters stay, everything else is so many bytes a sample. So two recordings tell every
other, which a third verifies.
"""

import copy
import dataclasses
import fractions
from typing import Any

_OP_COLUMNS = ("flop", "bytes", "workspace")


class NotAffineError(ValueError):
    """The recordings differ in more than sizes, or sizes do not grow affinely."""


@dataclasses.dataclass
class AffineTrace:
    """Two recordings of one network at `low` and `high`, which count the same thing."""

    low: int
    low_trace: dict[str, Any]
    high: int
    high_trace: dict[str, Any]

    def __post_init__(self) -> None:
        if _structure(self.low_trace) != _structure(self.high_trace):
            raise NotAffineError("the two recordings have different ops or storages")

    def at(self, value: int) -> dict[str, Any]:
        """The trace at another value; a size between two bytes is rounded up."""
        trace = copy.copy(self.low_trace)
        trace["storages"] = [
            {**a, "bytes": self._between(a["bytes"], b["bytes"], value)}
            for a, b in zip(self.low_trace["storages"], self.high_trace["storages"])
        ]
        trace["ops"] = [
            {**a, **{key: self._between(a[key], b[key], value) for key in _OP_COLUMNS if key in a}}
            for a, b in zip(self.low_trace["ops"], self.high_trace["ops"])
        ]
        return trace

    def verify(self, value: int, trace: dict[str, Any]) -> None:
        """Raises NotAffineError unless `trace` is what `at(value)` says."""
        expected = self.at(value)
        if _structure(expected) != _structure(trace):
            raise NotAffineError("the third recording has different ops or storages")
        for kind in ("storages", "ops"):
            for row, (ours, theirs) in enumerate(zip(expected[kind], trace[kind])):
                for key in ("bytes", "flop", "workspace"):
                    if ours.get(key) != theirs.get(key):
                        raise NotAffineError(
                            f"{kind} {row}: {key} is {theirs.get(key)} at {value}, "
                            f"affine would be {ours.get(key)}"
                        )

    def _between(self, low: int, high: int, value: int) -> int:
        slope = fractions.Fraction(high - low, self.high - self.low)
        return max(0, -int((-(low + slope * (value - self.low))) // 1))


def _structure(trace: dict[str, Any]) -> tuple:
    ops = [
        (op.get("name"), op.get("reads"), op.get("writes"), op.get("creates"), op.get("frees"))
        for op in trace["ops"]
    ]
    storages = [(row.get("role"), row.get("persistent")) for row in trace["storages"]]
    return ops, storages


def peak_bytes(trace: dict[str, Any]) -> int:
    """Most bytes alive at once."""
    created = {s for op in trace["ops"] for s in op.get("creates", ())}
    sizes = [row["bytes"] for row in trace["storages"]]
    live = sum(size for storage, size in enumerate(sizes) if storage not in created)
    peak = live
    for op in trace["ops"]:
        live += sum(sizes[s] for s in op.get("creates", ()))
        peak = max(peak, live + op.get("workspace", 0))
        live -= sum(sizes[s] for s in op.get("frees", ()))
    return peak
