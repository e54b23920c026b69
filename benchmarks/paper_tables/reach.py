# SPDX-License-Identifier: Apache-2.0
"""How far a network gets on a machine: the largest size that a planner finds a plan for."""

import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

from spillway.report.simulation import ask

from .affine import peak_bytes
from .kept import Recording

# Improving a plan does not change whether there is one, so the search for the largest size does
# without; the plan at the published size has the time that the command gives by itself. The other
# planners improve nothing, and refuse a limit to it.
_NO_IMPROVING = {"hybrid": ("--time-limit", "0s")}


@dataclasses.dataclass(frozen=True)
class Limits:
    """The memory that a step may use."""

    machine: str
    device_bytes: int
    host_bytes: int


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A planner with the options that differ from its defaults."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def flags(self) -> list[str]:
        return [word for name, value in self.options for word in (f"--{name}", value)]


@dataclasses.dataclass(frozen=True)
class Planned:
    """The step as the simulator predicts it with one plan."""

    step_ns: int
    compute_ns: int

    @property
    def slowdown(self) -> float:
        """Step time over that of a device without limit."""
        return self.step_ns / self.compute_ns


@dataclasses.dataclass(frozen=True)
class Largest:
    """The largest size that fits."""

    value: int | None  #: None where not even the smallest fits
    at_least: bool = False  #: nothing larger was recorded, so larger ones may fit


class Reach:
    """Plans of one network under one set of limits. Holds a temporary folder until closed."""

    def __init__(self, recording: Recording, limits: Limits) -> None:
        self._recording = recording
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory()
        self._fits: dict[tuple[Chosen, int], bool] = {}

    def __enter__(self) -> "Reach":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def plan(self, planner: Chosen, value: int) -> Planned | None:
        """The planner's plan at that size; None where it finds none."""
        answer = self._ask(planner, value)
        if not answer["feasible"]:
            return None
        return Planned(answer["step_ns"], answer["compute_ns"])

    def step_ns(self, value: int) -> int:
        """The step on a device without limit."""
        return ask("simulate", self._path(value), "--machine", self._limits.machine)["step_ns"]

    def fits(self, planner: Chosen, value: int) -> bool:
        """Whether the planner finds a plan at that size."""
        key = (planner, value)
        if key not in self._fits:
            self._fits[key] = self._is_feasible(planner, value)
        return self._fits[key]

    def fits_without(self, value: int) -> bool:
        """Whether the step fits the device with no plan at all."""
        return peak_bytes(self._recording.trace_at(value)) <= self._limits.device_bytes

    def largest(self, fits: Callable[[int], bool], published: int) -> Largest:
        """The largest size that fits.

        Searched to 1 % by halving, between nothing and what fits no more; where sizes are kept one
        by one, among those.
        """
        if self._recording.third is None:
            values = sorted(self._recording.values, reverse=True)
            found = next((value for value in values if fits(value)), None)
            return Largest(found, found == values[0])
        step = 16 if self._recording.grows == "resolution" else 1
        low, high = 0, published // step or 1
        while fits(high * step):
            low, high = high, 2 * high
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle * step) else (low, middle)
        return Largest(low * step or None)

    def smallest_budget(self, planner: Chosen, value: int, peak: int) -> int:
        """The least device memory that the planner finds a plan for, to 1 %; `peak` needs none."""
        low, high = 0, peak
        while high - low > high // 100:
            middle = (low + high) // 2
            fits = self._is_feasible(planner, value, middle)
            low, high = (low, middle) if fits else (middle, high)
        return high

    def _is_feasible(self, planner: Chosen, value: int, device: int | None = None) -> bool:
        flags = _NO_IMPROVING.get(planner.name, ())
        return self._ask(planner, value, *flags, device=device)["feasible"]

    def _ask(
        self, planner: Chosen, value: int, *flags: str, device: int | None = None
    ) -> dict[str, Any]:
        return ask(
            "plan", self._path(value),
            "--machine", self._limits.machine,
            "--planner", planner.name, *planner.flags,
            "--budget", str(self._limits.device_bytes if device is None else device),
            "--host", str(self._limits.host_bytes),
            # No row has the workspace of kernels, neither with a plan nor without.
            "--workspace-margin", "0",
            *flags,
        )  # fmt: skip

    def _path(self, value: int) -> str:
        """A file with the trace at that size: the kept one, or one worked out from two."""
        if self._recording.third is None:
            return str(self._recording.path(value))
        path = pathlib.Path(self._folder.name, f"{value}.json")
        if not path.exists():
            path.write_text(json.dumps(self._recording.trace_at(value)), encoding="utf-8")
        return str(path)
