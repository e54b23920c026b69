# SPDX-License-Identifier: Apache-2.0
"""How far a network gets on a machine: the largest size that a planner finds a plan for."""

import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Callable

from spillway import UserError
from spillway.report.simulation import ask

from paper_tables.affine import peak_bytes
from paper_tables.kept import Recording


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a step may use."""

    machine: str
    device_bytes: int
    host_bytes: int


@dataclasses.dataclass(frozen=True)
class Reached:
    """The outcome of planning one size."""

    value: int
    step_ns: int
    compute_ns: int

    @property
    def slowdown(self) -> float:
        """Step time over that of a device without limit."""
        return self.step_ns / self.compute_ns


class Reach:
    """Plans of one network under one set of limits."""

    def __init__(self, recording: Recording, limits: Limits) -> None:
        self._recording = recording
        self._limits = limits
        self._known: dict[tuple[str, int], Reached | None] = {}

    def plan(self, planner: str, value: int) -> Reached | None:
        """None where the planner finds no plan, or where no recording is kept."""
        key = (planner, value)
        if key not in self._known:
            self._known[key] = self._plan(planner, value)
        return self._known[key]

    def without(self, value: int) -> bool:
        """Whether the step fits the device with no plan at all."""
        trace = self._recording.trace_at(value)
        return trace is not None and peak_bytes(trace) <= self._limits.device_bytes

    def largest(self, fits: Callable[[int], bool], published: int) -> int | None:
        """The largest size that fits; None where not even the smallest does.

        Searched to 1 % by halving, between nothing and what fits no more; where sizes are kept one
        by one, among those.
        """
        if self._recording.third is None:
            fitting = [value for value in self._recording.values if fits(value)]
            return max(fitting, default=None)
        step = 8 if self._recording.grows == "resolution" else 1
        low, high = 0, published // step or 1
        while fits(high * step):
            low, high = high, 2 * high
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle * step) else (low, middle)
        return low * step or None

    def _plan(self, planner: str, value: int) -> Reached | None:
        trace = self._recording.trace_at(value)
        if trace is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "step.json")
            path.write_text(json.dumps(trace), encoding="utf-8")
            try:
                answer = ask(
                    "plan", str(path),
                    "--machine", self._limits.machine,
                    "--planner", planner,
                    "--budget", str(self._limits.device_bytes),
                    "--host", str(self._limits.host_bytes),
                )  # fmt: skip
            except UserError as error:
                if "no plan" in str(error) or "infeasible" in str(error):
                    return None
                raise
        if not answer.get("feasible", True):
            return None
        return Reached(value, answer["step_ns"], answer["compute_ns"])
