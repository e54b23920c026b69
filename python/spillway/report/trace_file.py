# SPDX-License-Identifier: Apache-2.0
"""A trace as a report reads it. docs/formats.md describes the file."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
from typing import Any

from spillway._native import UserError
from spillway.report.contents import MemoryCurve

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a file, compressed with zstd or not.

    Raises:
        UserError: there is no such file, or it holds something else.
    """
    try:
        contents = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
    if contents.startswith(_ZSTD_MAGIC):
        contents = _unpack(contents, path)
    try:
        parsed = json.loads(contents)
    except ValueError as error:
        raise UserError(f"{os.fspath(path)} is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise UserError(
            f"{os.fspath(path)} is neither a trace nor a plan nor statistics: it holds no object"
        )
    return parsed


def _unpack(contents: bytes, path: str | os.PathLike) -> bytes:
    try:
        from compression import zstd  # Python 3.14

        return zstd.decompress(contents)
    except ImportError:
        pass
    try:
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress(contents)
    except ImportError:
        pass
    if shutil.which("zstd"):
        done = subprocess.run(["zstd", "-dc"], input=contents, capture_output=True, check=False)
        if done.returncode == 0:
            return done.stdout
    raise UserError(
        f"{os.fspath(path)} is compressed: install the Python package zstandard, or record to a "
        "name without .zst"
    )


def _rename(document: dict[str, Any]) -> None:
    """Gives members that versions 1 to 3 called otherwise the names of version 4."""
    if "scratch_known" in document:
        document["workspace_known"] = document.pop("scratch_known")
    for op in document.get("ops", ()):
        if "alloc_peak" in op:
            op["workspace"] = op.pop("alloc_peak")


@dataclasses.dataclass
class Trace:
    """Rows as dictionaries, the way the file has them, with defaults filled in where read."""

    machine: str
    framework: str
    timed: bool
    workspace_known: bool
    storages: list[dict[str, Any]]
    ops: list[dict[str, Any]]

    @classmethod
    def read(cls, path: str | os.PathLike) -> "Trace":
        return cls.from_json(read_json(path), os.fspath(path))

    @classmethod
    def from_json(cls, document: dict[str, Any], what: str) -> "Trace":
        if "spillway_trace" not in document:
            raise UserError(f"{what} is no trace: it has no member spillway_trace")
        _rename(document)
        return cls(
            machine=document.get("machine", ""),
            framework=document.get("framework", ""),
            timed=document.get("timed", True),
            workspace_known=document.get("workspace_known", True),
            storages=document.get("storages", []),
            ops=document.get("ops", []),
        )

    def role(self, storage: int) -> str:
        return self.storages[storage].get("role", "unknown")

    def storage_name(self, storage: int) -> str:
        """Returns the program's name for it, else the op that made it."""
        name = self.storages[storage].get("name")
        return name or self._makers().get(storage, f"storage {storage}")

    def _makers(self) -> dict[int, str]:
        if not hasattr(self, "_maker_names"):
            self._maker_names = {
                storage: self.op_name(index)
                for index, op in enumerate(self.ops)
                for storage in op.get("creates", ())
            }
        return self._maker_names

    def op_name(self, index: int) -> str:
        """`12 aten::convolution (layer1.0.conv1)`"""
        if index >= len(self.ops):
            return "the end of the step"
        op = self.ops[index]
        module = op.get("module")
        return f"{index} {op.get('name', '')}" + (f" ({module})" if module else "")


def unmanaged_memory(trace: Trace, starts: list[int]) -> MemoryCurve:
    """Returns the bytes on the device if nothing ever left it.

    `starts[i]` is when op i begins; one more entry is the end of the step.
    """
    created = {s for op in trace.ops for s in op.get("creates", ())}
    live = dict.fromkeys({trace.role(s) for s in range(len(trace.storages))} | {"workspace"}, 0)
    for storage, row in enumerate(trace.storages):
        if storage not in created:
            live[trace.role(storage)] += row["bytes"]
    curve = MemoryCurve([], {role: [] for role in live})
    for index, op in enumerate(trace.ops):
        for storage in op.get("creates", ()):
            live[trace.role(storage)] += trace.storages[storage]["bytes"]
        live["workspace"] += op.get("workspace", 0)
        curve.times.append(starts[index])
        for role, values in curve.bytes.items():
            values.append(live[role])
        live["workspace"] -= op.get("workspace", 0)
        for storage in op.get("frees", ()):
            live[trace.role(storage)] -= trace.storages[storage]["bytes"]
    curve.times.append(starts[len(trace.ops)])
    for role, values in curve.bytes.items():
        values.append(live[role])
    return curve


def own_starts(trace: Trace) -> list[int]:
    """When ops begin by the trace's durations; op indices where it has none."""
    starts = [0]
    for op in trace.ops:
        starts.append(starts[-1] + (op.get("ns", 0) if trace.timed else 1))
    return starts
