# SPDX-License-Identifier: Apache-2.0
"""The recordings in the repository, from which the tables are made without a framework."""

import dataclasses
import pathlib
from typing import Any

from spillway.report.trace_file import read_json

from .affine import AffineTrace
from .rows import MEMORY_ROWS, ROWS, MemoryRow, Row

FOLDER = pathlib.Path(__file__).parent / "recordings"

# Sizes that leave the network's ops alone: recorded at two values, checked at a third.
_AFFINE = {
    "resnet": ("batch", (8, 16), 40),
    "inception_v3": ("batch", (8, 16), 40),
    "inception_v4": ("batch", (8, 16), 40),
    "googlenet": ("batch", (8, 16), 40),
    "vgg": ("batch", (8, 16), 40),
    "alexnet": ("batch", (32, 64), 96),
    "wide_resnet": ("batch", (8, 16), 40),
    "lstm_language_model": ("batch", (8, 16), 40),
    "translation": ("batch", (8, 16), 40),
    "unet3d": ("resolution", (32, 64), 96),
    "residual_unet3d": ("resolution", (32, 64), 96),
}
# An embedding reads its words until it has read the whole table: 25 samples of 400 words do.
_AFFINE_ELSEWHERE = {
    ("translation", (("steps", 400),)): ("batch", (32, 64), 40),
}
# Others: at each of these.
_VALUES = {
    "resnet_layers": (101, 245, 503, 749, 1001, 1250, 1499, 1916, 2000, 2501),
    "mixture_of_experts": (8, 12, 16, 24, 32, 48, 64, 96, 128),
    "deep_speech": (100, 200, 400, 800),
}
# TensorFlowMem got to 1001 there, Meng to 2000.
_FEWER_VALUES = {
    ("resnet_layers", (("batch", 32),)): (503, 1001, 2000),
}
# Networks without a row of their own in the table of sizes.
_WITHOUT_ROWS = (
    ("unet3d", (("batch", 1),)),
    ("googlenet", ()),
    ("vgg", (("depth", 19),)),
    ("wide_resnet", (("widen", 1),)),
    ("wide_resnet", (("widen", 4),)),
    ("wide_resnet", (("widen", 8),)),
)


@dataclasses.dataclass(frozen=True)
class Recording:
    """One network with all sizes fixed but the one that grows."""

    network: str
    sizes: tuple[tuple[str, int], ...]

    @property
    def _affine_in(self) -> tuple[str, tuple[int, int], int] | None:
        """Returns the name of what grows, its two values and the third; None where the network
        itself changes.
        """
        return _AFFINE_ELSEWHERE.get((self.network, self.sizes), _AFFINE.get(self.network))

    @property
    def grows(self) -> str:
        if self._affine_in:
            return self._affine_in[0]
        return {"resnet_layers": "layers", "mixture_of_experts": "experts"}.get(
            self.network, "steps"
        )

    @property
    def values(self) -> tuple[int, ...]:
        if self._affine_in:
            return self._affine_in[1]
        return _FEWER_VALUES.get((self.network, self.sizes), _VALUES[self.network])

    @property
    def third(self) -> int | None:
        return self._affine_in[2] if self._affine_in else None

    @property
    def is_kept(self) -> bool:
        """Whether all its files are in the repository."""
        return all(self.path(value).exists() for value in self.values)

    def nearest(self, value: int) -> int:
        """The value nearest to this one that a trace can be had at."""
        if self.third is not None:
            return value
        return min(self.values, key=lambda kept: abs(kept - value))

    def measure(self, value: int) -> int:
        """Returns what sizes grow affinely with: voxels of a volume, else the value."""
        return value**3 if self.grows == "resolution" else value

    def path(self, value: int) -> pathlib.Path:
        parts = [self.network, *(f"{name}{size}" for name, size in self.sizes)]
        return FOLDER / f"{'-'.join(parts)}-{self.grows}{value}.json.zst"

    def trace_at(self, value: int) -> dict[str, Any] | None:
        """The trace of the network at that value; None where none is kept."""
        if self.third is None:
            path = self.path(value)
            return read_trace(path) if path.exists() else None
        return self._affine().at(self.measure(value))

    def _affine(self) -> AffineTrace:
        if self not in _cache:
            low, high = self.values
            _cache[self] = AffineTrace(
                self.measure(low),
                read_trace(self.path(low)),
                self.measure(high),
                read_trace(self.path(high)),
            )
        return _cache[self]


_cache: dict[Recording, AffineTrace] = {}


def of_row(row: Row | MemoryRow) -> Recording:
    return Recording(row.network, row.sizes)


def recordings() -> list[Recording]:
    """All that are kept, each once."""
    rows = [*ROWS, *MEMORY_ROWS]
    return list(dict.fromkeys([*map(of_row, rows), *(Recording(*each) for each in _WITHOUT_ROWS)]))


def read_trace(path: pathlib.Path) -> dict[str, Any]:
    """Returns the recording with the members' names of the trace format's version 4."""
    trace = read_json(path)
    for op in trace["ops"]:
        if "alloc_peak" in op:
            op["workspace"] = op.pop("alloc_peak")
    return trace
