# SPDX-License-Identifier: Apache-2.0
"""Recording a whole program without memory: ``spillway record --without-memory``.

The program runs on the meta device until its optimizer has stepped twice. What lies between the
two is the recorded step; then the program is ended, since going on could yield nothing more.
"""

import atexit
import os
import sys

import torch

from spillway import _native
from spillway._native import UserError
from spillway.recording import machines
from spillway.recording.step import RecordedStep, StepRecorder

#: Where the trace goes, which machine times it, what values are assumed to be.
PATH, MACHINE, ASSUME = (
    "SPILLWAY_WITHOUT_MEMORY",
    "SPILLWAY_MACHINE",
    "SPILLWAY_ASSUME",
)


def start() -> None:
    """Begins, as the environment says. Called at the end of ``import torch``.

    Raises:
        UserError: a variable is wrong.
    """
    machine = os.environ.get(MACHINE)
    ProgramRecording(
        os.environ[PATH],
        machines.find(machine) if machine else None,
        _assumption(os.environ.get(ASSUME)),
    )


def _assumption(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UserError(f'{ASSUME}: "{text}" is no number; give one such as 0.0.') from None


class ProgramRecording:
    """Lives until the program ends."""

    def __init__(self, path, machine_file, assume) -> None:
        self._path = path
        self._machine_file = machine_file
        self._optimizer: torch.optim.Optimizer | None = None
        self._recorded: RecordedStep | None = None
        self._session = StepRecorder(assume)
        self._session.start()
        self._session.watch.after_optimizer = self._after_optimizer
        self._excepthook = sys.excepthook
        sys.excepthook = self._explain
        atexit.register(self._at_exit)

    def _after_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        # The first of several optimizers marks the steps.
        if self._optimizer is None:
            self._optimizer = optimizer
            self._session.begin_step()
        elif optimizer is self._optimizer:
            self._recorded = self._session.take(self._machine_file)
            self._recorded.save(self._path)
            self._session.stop()
            raise SystemExit(0)

    def _explain(self, kind, error, trace) -> None:
        if not isinstance(error, (RuntimeError, NotImplementedError)):
            self._excepthook(kind, error, trace)
            return
        explained = self._session.explained(error.with_traceback(trace))
        if explained is error:
            self._excepthook(kind, error, trace)
        else:
            print(f"spillway: error: {explained}", file=sys.stderr)

    def _at_exit(self) -> None:
        if self._recorded is None:
            print(
                "spillway: no step was recorded: the program must step its optimizer twice",
                file=sys.stderr,
            )
            return
        for note in self._recorded.notes:
            print(f"spillway: {note}", file=sys.stderr)
        print(
            f"spillway: recorded {self._recorded.ops} ops, peak "
            f"{self._recorded.peak_bytes / 2**30:.2f} GiB without workspace",
            file=sys.stderr,
        )
        _native.settings = None
