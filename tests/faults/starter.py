# SPDX-License-Identifier: Apache-2.0
"""A process that has imported torch, and forks a child for every program that a test runs.

Importing torch takes seconds and a fork milliseconds, so each program gets a process of its own, in
which Spillway has never run. The child starts it as `import torch` would: with variables in the
environment and a call of the entry point. Whatever happens there (a signal, a hang, an exit), the
starter goes on.
"""

import atexit
import ctypes
import importlib
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMED_OUT = "timed out"
INTERRUPTED = 130


@dataclass
class Child:
    """How one program ended, and what it left behind."""

    name: str
    status: int | str  # exit status, -SIGNAL, or TIMED_OUT
    stdout: str
    stderr: str
    result: object  # what the function returned, through JSON
    seconds: float
    pid: int
    left_behind: list[str]  # entries of the temporary directory when all was over

    def describe(self):
        return f"{self.name} ended with {self.status}\n{self.stdout[-2000:]}\n{self.stderr[-6000:]}"

    def require_success(self):
        assert self.status == 0, self.describe()
        assert not self.left_behind, f"{self.name} left {self.left_behind}"
        return self


def activate(**settings):
    """Starts Spillway in this child the way `import torch` does: activate(BUDGET="16MiB")."""
    from spillway import _autoload

    os.environ.update({f"SPILLWAY_{name}": str(value) for name, value in settings.items()})
    _autoload.activate()


def _module_of(function):
    """Its name as seen from the repository's root, whatever the name pytest imported it by."""
    path = Path(inspect.getfile(inspect.unwrap(function))).resolve()
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def clean_environment():
    """This process's environment without what would switch Spillway on."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPILLWAY_")}
    env["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), env.get("PYTHONPATH")) if p)
    # The tensors are small, and the machine may have fewer cores than processes.
    env["OMP_NUM_THREADS"] = "1"
    # For a graphics card autograd keeps a thread, and then PyTorch trains in no forked child.
    env["CUDA_VISIBLE_DEVICES"] = ""
    return env


class Starter:
    """The pytest side."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self._process = self._start()

    def _start(self):
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faults.starter"],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, function, *arguments, timeout=60, **settings):
        """Runs a module-level function in a child; `settings` (BUDGET=...) activate Spillway first.

        The child is killed with all its descendants after `timeout` seconds.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            scratch = Path(folder, "tmp")
            scratch.mkdir()
            request = {
                "module": _module_of(function),
                "function": function.__qualname__,
                "arguments": arguments,
                "settings": {name: str(value) for name, value in settings.items()},
                "folder": folder,
                "timeout": timeout,
            }
            reply = self._ask(request)
            read = {
                name: Path(folder, name).read_text(encoding="utf-8", errors="replace")
                for name in ("stdout", "stderr", "result")
            }
            return Child(
                name=f"{function.__qualname__}{tuple(arguments)}",
                status=reply["status"],
                stdout=read["stdout"],
                stderr=read["stderr"],
                result=json.loads(read["result"] or "null"),
                seconds=reply["seconds"],
                pid=reply["pid"],
                left_behind=sorted(os.listdir(scratch)),
            )

    def _ask(self, request):
        if self._process.poll() is not None:
            self._process = self._start()
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answered, _, _ = select.select([self._process.stdout], [], [], request["timeout"] + 60)
        line = self._process.stdout.readline() if answered else ""
        if not line:  # only the test that was under way fails
            status = self._process.poll()
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the starter of children is gone or hangs: {status}")
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _await(pid, timeout):
    """The child's exit status as in `Child`; after the time its whole session is killed."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return TIMED_OUT


def _become_child(folder):
    os.setsid()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        file = os.open(Path(folder, name), os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.environ["TMPDIR"] = str(Path(folder, "tmp"))
    tempfile.tempdir = None
    os.chdir(folder)


def _run(request):
    """In the child; returns its exit status. Errors are told on standard error."""
    try:
        if request["settings"]:
            activate(**request["settings"])
        module = importlib.import_module(request["module"])
        function = getattr(module, request["function"])
        function = getattr(function, "program", function)  # see in_child
        result = function(*request["arguments"])
        Path(request["folder"], "result").write_text(json.dumps(result), encoding="utf-8")
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        print(_told(error), file=sys.stderr, flush=True)
        return 1
    return 0


def _told(error):
    """The traceback, with the test's local variables where they can be printed."""
    try:
        report = traceback.TracebackException.from_exception(error, capture_locals=True)
    except Exception:  # it was a tensor that cannot be brought back
        report = traceback.TracebackException.from_exception(error)
    for frame in report.stack:
        if "test_" not in frame.filename:
            frame.locals = None
    return "".join(report.format())


def _end(status):
    """Ends the child as a program ends, without a second spent on taking the modules apart."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(status)


def serve():
    """Answers one line of JSON on standard input with one on standard output, until the end."""
    import numpy  # noqa: F401
    import torch._dynamo  # noqa: F401 - else every child that makes an optimizer imports it

    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        for name in ("stdout", "stderr", "result"):
            Path(request["folder"], name).touch()
        begin = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _become_child(request["folder"])
            _end(_run(request))
        status = _await(pid, request["timeout"])
        reply = {"pid": pid, "status": status, "seconds": time.monotonic() - begin}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    serve()
