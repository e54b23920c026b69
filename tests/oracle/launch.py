# SPDX-License-Identifier: Apache-2.0
"""Starts the child processes of the oracle and reads what they wrote.

A child is managed exactly as a user's program is: by SPILLWAY_* variables and nothing else. All
other variables are the same for managed and unmanaged runs, so that they can differ in nothing but
what is under test.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = float(os.environ.get("ORACLE_TIMEOUT", "900"))
MIB = 1 << 20
FUZZ_BUDGET_BYTES = 2 << 30  # no pressure of its own: fuzz evicts whatever the budget


class ChildFailedError(AssertionError):
    """A child did not finish. The text holds the command, how it ended and what it said last."""


STATISTICS = (
    "mode",
    "budget_bytes",
    "peak_device_bytes",
    "evicted_bytes",
    "clean_evicted_bytes",
    "fetched_bytes",
    "disk_written_bytes",
    "disk_read_bytes",
    "ops",
    "overshoot_bytes",
    "floor_bytes",
    "pages",
    "io",
)


@dataclass
class Child:
    """The output of one process."""

    command: str
    returncode: int
    report: dict
    stats: dict
    stderr_tail: str
    runs: dict = field(default_factory=dict)  # (program, optimizer) -> digested result

    @property
    def moved_bytes(self):
        return self.stats["evicted_bytes"] + self.stats["clean_evicted_bytes"]

    def require_complete(self):
        """Raises ChildFailedError unless the process ended well and ran all it was asked to."""
        if self.returncode == 0 and self.report.get("complete"):
            return self
        ended = f"exit status {self.returncode}"
        if self.returncode < 0:
            ended = f"signal {signal.Signals(-self.returncode).name}"
        running = self.report.get("running")
        raise ChildFailedError(
            f"the run did not finish: {ended}, while running {running}\n"
            f"  to repeat: {self.command}\n{self.stderr_tail}"
        )


def environment(managed, folder):
    """This process's environment without any SPILLWAY_* of its own, plus `managed`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
    env.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(folder) / "inductor"))
    # Waiting threads sleep instead of spinning: two-threaded programs share two cores with others.
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    env["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), env.get("PYTHONPATH")) if p)
    return env | managed


def _load(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def start(module, arguments, managed, folder, timeout=TIMEOUT_SECONDS, before=None, through=()):
    """Runs `python -m module arguments... -o report` to its end, whatever that is.

    `before` is called in the child before it becomes Python. `through`: a script that becomes the
    rest of the command.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        output, stats, errors = (os.path.join(scratch, n) for n in ("out.json", "stats", "stderr"))
        if managed:
            managed = managed | {"SPILLWAY_STATS": stats}
        command = [sys.executable, *through, "-m", module, *arguments, "-o", output]
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(managed, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=before,
            )
            try:
                returncode = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its own session: workers end with it
                returncode = process.wait()
        prefix = " ".join(f"{k}={v}" for k, v in managed.items() if k != "SPILLWAY_STATS")
        child = Child(
            command=" ".join([prefix, "python", *through, "-m", module, *arguments]).strip(),
            returncode=returncode,
            report=_load(output),
            stats=_load(stats),
            stderr_tail=Path(errors).read_text(encoding="utf-8", errors="replace")[-4000:],
        )
    for run in child.report.get("runs", []):
        child.runs[run["program"], run["optimizer"]] = run
    return child


def run_programs(cases, size, managed, folder, before=None):
    """One process that runs every (program, optimizer) of `cases`; see tests/oracle/run.py."""
    spelled = [name if optimizer is None else f"{name}:{optimizer}" for name, optimizer in cases]
    return start("tests.oracle.run", [*spelled, "--size", size], managed, folder, before=before)


def mode_variables(mode=None, budget_bytes=None):
    """The variables of one way of running. None for both: unmanaged."""
    variables = {}
    if mode is not None:
        variables["SPILLWAY_MODE"] = mode
    if mode == "fuzz":
        variables["SPILLWAY_MIN_SIZE"] = "1"  # tiny programs have tiny tensors; move them too
        budget_bytes = budget_bytes or FUZZ_BUDGET_BYTES
    if budget_bytes is not None:
        variables["SPILLWAY_BUDGET"] = f"cpu:{budget_bytes}"
    return variables


def required_statistics(child):
    """The statistics of a managed run. Raises AssertionError naming the fields that lack."""
    missing = [name for name in STATISTICS if name not in child.stats]
    assert not missing, (
        f"statistics lack {missing}; was the process managed at all?\n"
        f"  to repeat: {child.command}\n{re.sub(r'^', '    ', child.stderr_tail, flags=re.M)}"
    )
    return child.stats
