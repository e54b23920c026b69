# SPDX-License-Identifier: Apache-2.0
"""``record_step`` and what it returns."""

import contextlib
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from spillway import _native
from spillway._library import WHERE, Library
from spillway._native import UserError
from spillway.recording import lines, machines, meta_mode
from spillway.recording.watch import Watch

_WITHOUT_WORKSPACE = (
    "without workspace: what kernels allocate for themselves is not known on the meta device"
)


class RecordedStep:
    """One training step as a trace. Owns native memory until it is collected."""

    def __init__(self, library: Library, handle: int, notes: list[str]) -> None:
        self._library = library
        self._handle = handle
        facts = library.step_facts(handle)
        self.ops: int = facts["ops"]  #: rows: leaf operators that touch memory
        self.recomputable_ops: int = facts["recomputable_ops"]
        self.storages: int = facts["storages"]
        self.peak_bytes: int = facts["peak_bytes"]  #: most alive at once, without workspace
        self.flop: int = facts["flop"]
        self.duration_ns: int = facts["duration_ns"]  #: of all ops; 0 where no machine was named
        self.bytes_by_role: dict[str, int] = facts["bytes_by_role"]
        self.notes = tuple(notes)  #: where the recording differs from a run, in words

    def save(self, path: str | os.PathLike) -> None:
        """Writes the trace, compressed if the name ends in ``.zst``.

        Raises:
            UserError: the file cannot be written.
        """
        self._library.step_write(self._handle, os.fspath(path))

    def to_dict(self) -> dict[str, Any]:
        """The trace as docs/formats.md describes it."""
        return self._library.step_text(self._handle)

    def __repr__(self) -> str:
        return (
            f"<RecordedStep of {self.ops} ops, {self.storages} storages, "
            f"peak {self.peak_bytes / 2**20:.1f} MiB without workspace>"
        )

    def __del__(self) -> None:
        if self._handle:
            self._library.step_free(self._handle)
            self._handle = 0


def record_step(
    step: Callable[[], Any],
    machine: str | None = None,
    *,
    path: str | os.PathLike | None = None,
    assume: float | None = None,
) -> RecordedStep:
    """Records one training step without memory and without computing.

    ``step`` is called on the meta device: tensors it makes, and modules made inside
    ``without_memory()``, have sizes but no bytes. It is called twice, and the second call is
    recorded, when gradients and optimizer state exist. If its first call returns a function, that
    one is the step, and the call made the model: so a builder can be passed, whose model never
    exists in memory.

    Args:
        step: one step, or a function that makes a model and returns the step.
        machine: name or file of the machine whose roofline gives the ops their durations; without
            one the trace has none.
        path: where to write the trace at once.
        assume: what reading a tensor's value (``loss.item()``) yields; without it, reading raises.

    Raises:
        UserError: the step depends on values (the text names the operator and the line), or the
            machine is not known.
    """
    machine_file = machines.find(machine) if machine is not None else None
    with _recording(assume) as session:
        made = session.guard(step)
        run = made if callable(made) else step
        del made
        if run is not step:
            session.guard(run)
        session.begin_step()
        session.guard(run)
        recorded = session.take(machine_file)
    if path is not None:
        recorded.save(path)
    return recorded


@contextlib.contextmanager
def without_memory() -> Iterator[None]:
    """Tensors and modules made inside live on the meta device, whatever device is named."""
    with meta_mode.OnMeta(None, lambda note: None), meta_mode.unfused_optimizers(_warn):
        yield


def _warn(note: str) -> None:
    warnings.warn(f"spillway: {note}", stacklevel=4)


@contextlib.contextmanager
def _recording(assume: float | None) -> Iterator["StepRecorder"]:
    session = StepRecorder(assume)
    session.start()
    try:
        yield session
    finally:
        session.stop()


class StepRecorder:
    """Everything that is switched on while a recording runs."""

    def __init__(self, assume: float | None) -> None:
        self.library = _native.load()
        self.watch = Watch(self.library)
        self.notes: list[str] = [_WITHOUT_WORKSPACE]
        self._assume = assume
        self._stack = contextlib.ExitStack()
        self._lines = lines.LineNumbers(self.library.record_line)
        # The native side keeps the address: the object must live as long as the recording.
        self._where = WHERE(self._lines.here)

    def note(self, text: str) -> None:
        """Adds to what the recording says of itself, once."""
        if text not in self.notes:
            self.notes.append(text)

    def start(self, with_data: bool = False) -> None:
        if not with_data:
            self._stack.enter_context(meta_mode.OnMeta(self._assume, self.note))
            self._stack.enter_context(meta_mode.unfused_optimizers(self.note))
            self._stack.enter_context(meta_mode.noted_autocast(self.note))
        self.watch.with_data = with_data
        self.watch.install()
        self._stack.callback(self.watch.remove)
        self.library.record_begin(
            self._where,
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            with_data,
        )
        self._stack.callback(self.library.record_end)

    def stop(self) -> None:
        self._stack.close()

    def begin_step(self) -> None:
        self.watch.describe_gradients()
        self.library.record_step()

    def take(self, machine_file: pathlib.Path | None) -> RecordedStep:
        """The step since `begin_step`."""
        self.watch.describe_gradients()
        for op in self.library.record_decomposed():
            self.note(
                f"{op} was recorded as its parts: devices run it as one kernel, meta has none"
            )
        handle = self.library.record_take(
            f"torch {torch.__version__}, meta device",
            None if machine_file is None else os.fspath(machine_file),
        )
        recorded = RecordedStep(self.library, handle, self.notes)
        if recorded.ops == 0:
            raise UserError(
                "the step ran no operator on the meta device: make its model and tensors inside "
                "spillway.without_memory(), or pass a function that makes them and returns the step"
            )
        return recorded

    def guard(self, function: Callable[[], Any]) -> Any:
        """Calls the function, and says which operator and line wanted values if one did.

        Raises:
            UserError: as above.
        """
        try:
            return function()
        except (RuntimeError, NotImplementedError) as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> Exception:
        """Returns the exception to raise for an error of the program."""
        op = self.library.record_last_op() or "an operator"
        first = str(error).strip().split("\n")[0]
        if "meta" not in str(error) and "data-dependent" not in str(error):
            return error
        where = lines.of_error(error)
        return UserError(
            f"{where + ': ' if where else ''}{op} depends on values, and a recording without "
            f"memory has none ({first}). If the value is only shown, pass assume=0.0 "
            "(--assume 0); else leave it out of the step that is recorded"
        )
