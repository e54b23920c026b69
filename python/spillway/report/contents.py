# SPDX-License-Identifier: Apache-2.0
"""The contents of a report, as plain values, without their source or how they are drawn.

Times are nanoseconds from the beginning of the step, sizes bytes.
"""

import dataclasses

#: In this order from the bottom of the memory chart: what stays longest lies lowest.
ROLES = (
    "parameter",
    "optimizer_state",
    "gradient",
    "input",
    "activation",
    "workspace",
    "unknown",
)


@dataclasses.dataclass
class MemoryCurve:
    """The bytes on a tier: `bytes[role][i]` from `times[i]` to `times[i + 1]`."""

    times: list[int]
    bytes: dict[str, list[int]]

    def totals(self) -> list[int]:
        return [sum(values) for values in zip(*self.bytes.values())] if self.bytes else []

    def peak(self) -> int:
        return max(self.totals(), default=0)


@dataclasses.dataclass
class Span:
    """A bar of the chart of streams."""

    begin: int
    end: int
    kind: str  #: op, recompute, stall or copy
    label: str


@dataclasses.dataclass
class Decision:
    """The plan's decision for one storage."""

    storage: str
    role: str
    bytes: int
    decision: str  #: "keep", "host", "disk", "recompute", "given up" or several of them
    leaves: str  #: after which op, the longest time
    returns: str  #: before which op it is asked for again
    moved_bytes: int  #: by copies in a step, over the device's links, both ways
    reason: str


@dataclasses.dataclass
class ParetoPoint:
    planner: str
    budget_bytes: int
    step_ns: int


@dataclasses.dataclass
class BoundPoint:
    budget_bytes: int
    step_ns: int


@dataclasses.dataclass
class Comparison:
    """A predicted figure beside the measured one."""

    what: str
    unit: str  #: "bytes", "ns" or "" for a count
    predicted: float
    measured: float
    compares: bool = True  #: False: they are of different things, so the difference says nothing


@dataclasses.dataclass
class Basis:
    """The source of the figures of a plan or of a comparison; empty where nobody says."""

    machine: str = ""
    durations: str = ""  #: "recorded" or "estimated"
    recorded_on: str = ""
    recorded_elsewhere: bool = False  #: than on that machine
    compute_ns: int = 0
    margin_bytes: int = 0  #: of the budget, left free for the workspace of kernels
    host_bytes: int = 0  #: the host's and the disk's budgets
    disk_bytes: int = 0


@dataclasses.dataclass
class Report:
    title: str
    facts: list[tuple[str, str]]  #: shown above the charts
    notes: list[str] = dataclasses.field(default_factory=list)
    budget_bytes: int | None = None  #: of the device, as a person states it
    unmanaged: MemoryCurve | None = None
    planned: MemoryCurve | None = None
    slower_tiers: dict[str, MemoryCurve] = dataclasses.field(default_factory=dict)
    streams: dict[str, list[Span]] = dataclasses.field(default_factory=dict)
    decisions: list[Decision] = dataclasses.field(default_factory=list)
    decisions_left_out: int = 0
    basis: Basis = dataclasses.field(default_factory=Basis)
    step_ns: int = 0  #: predicted, with the plan
    moved_bytes: int = 0  #: by the plan in a step, over the device's links, both ways
    pareto: list[ParetoPoint] = dataclasses.field(default_factory=list)
    bound: list[BoundPoint] = dataclasses.field(default_factory=list)
    own_point: ParetoPoint | None = None  #: the plan of the report, where it stands among those
    comparisons: list[Comparison] = dataclasses.field(default_factory=list)
    counts_ops: bool = False  #: times are op numbers, since the trace has no durations
