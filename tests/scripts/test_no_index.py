# SPDX-License-Identifier: Apache-2.0
"""Set-up and tests where no package index answers: said soon, and all else is built and tested.

The scripts run in a small checkout of their own, with stand-ins for what they start: the installer
of system packages, CMake, CTest and the quick checks. The interpreter has no PyTorch.
"""

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
REASON = "no package index answers (build/setup/probe.log) and python3 has no supported torch"
# Alone it takes two, or seven where an index is silent. With pip's own waits it would be minutes.
SOON = 30  # seconds

# Two tests that need no framework, and five that do: three of them in one file.
TESTS = {
    "tests/cli/test_plain.py": "def test_one():\n    pass\n",
    "tests/docs/test_pages.py": "def test_two():\n    pass\n",
    "tests/oracle/test_bits.py": (
        "import torch\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    pass\n\n\n"
        "class TestC:\n    def test_c(self):\n        pass\n\n\ndef helper():\n    pass\n"
    ),
    "tests/faults/test_disk.py": "import torch\n\n\ndef test_d():\n    pass\n",
    "tests/faults/deeper/test_e.py": "async def test_e():\n    pass\n",
    "tests/faults/training.py": "def test_bed():\n    pass\n",
}


def _script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@dataclass
class Checkout:
    folder: Path
    environment: dict

    def run(self, *words, **variables):
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def called(self):
        """Returns the commands that the stand-ins received."""
        log = self.folder / "called"
        return log.read_text() if log.exists() else ""

    def outcome(self):
        """build/environment.sh, as the scripts read it."""
        names = "spillway_venv spillway_torch_version spillway_no_torch_reason spillway_build"
        show = f'. build/environment.sh; for name in {names}; do echo "$name=${{!name}}"; done'
        lines = self.run("bash", "-c", show).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    def set_up(self, **variables):
        return self.run("scripts/setup.sh", "test", **variables)


@pytest.fixture
def silent_index():
    """An address that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple"


def _closed_index():
    """An address at which nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/simple"


def _environment(bare_python):
    """This process's, without what would lead to a package index or a PyTorch."""
    outside = ("PIP_", "SPILLWAY_", "VIRTUAL_ENV", "PYTHON", "TORCH", "REQUIRE_TORCH")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(outside) and not name.lower().endswith("_proxy")
    }
    return kept | {
        "PYTHON": str(bare_python),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": _closed_index(),
    }


@pytest.fixture(scope="module")
def set_up_once(tmp_path_factory):
    """A checkout after `scripts/setup.sh test`, and its interpreter: making that takes longest."""
    bare = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    folder = tmp_path_factory.mktemp("made") / "checkout"
    (folder / "scripts").mkdir(parents=True)
    for name in ("setup.sh", "environment_steps.sh", "build.sh", "test.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    for name, text in TESTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _script(folder / "scripts" / "packages.sh", "exit 0")
    (folder / "scripts" / "lint.py").write_text("open('called', 'a').write('lint\\n')\n")
    for name in ("cmake", "ctest"):
        _script(folder / "bin" / name, f'echo {name} "$@" >>called')
    # It has pytest, which the environment made here cannot get.
    _script(folder / "bin" / "python3", f'exec {sys.executable} "$@"')
    made = Checkout(folder, _environment(bare / "bin" / "python3"))
    done = made.set_up()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def checkout(set_up_once, tmp_path):
    """That checkout, for one test to change."""
    folder = tmp_path / "checkout"
    shutil.copytree(set_up_once.folder, folder, ignore=shutil.ignore_patterns(".venv"))
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return Checkout(folder, set_up_once.environment | {"PATH": path})


def _require_told_soon(checkout, **variables):
    begin = time.monotonic()
    done = checkout.set_up(**variables)
    assert time.monotonic() - begin < SOON, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = checkout.outcome()
    assert (outcome["spillway_venv"], outcome["spillway_no_torch_reason"]) == ("", REASON)


def test_a_closed_index_is_told_soon(set_up_once):
    _require_told_soon(set_up_once)


def test_a_silent_index_is_told_soon(set_up_once, silent_index):
    """Whatever the surroundings would wait."""
    _require_told_soon(
        set_up_once, PIP_INDEX_URL=silent_index, PIP_DEFAULT_TIMEOUT="600", PIP_RETRIES="9"
    )


def test_what_needs_no_framework_is_built_and_tested(checkout):
    built = checkout.run("scripts/build.sh")
    assert built.returncode == 0, built.stderr
    assert "-DSPILLWAY_TORCH=OFF" in checkout.called()
    assert "cmake --build build/release" in checkout.called()
    done = checkout.run("scripts/test.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nlint\n" in checkout.called()
    assert "ctest --test-dir build/release" in checkout.called()
    assert done.stdout.count("1 passed") == 2, done.stdout  # tests/cli, tests/docs
    not_run = [line for line in done.stdout.splitlines() if "NOT RUN" in line]
    assert not_run == [f"NOT RUN: PyTorch tests (5): {REASON}"]
    assert done.stdout.splitlines()[-1] == not_run[0]


def test_without_pytest_what_needs_no_framework_is_counted_too(checkout):
    _script(checkout.folder / "bin" / "python3", f'exec {checkout.environment["PYTHON"]} "$@"')
    done = checkout.run("scripts/test.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == [
        "NOT RUN: Python tests that need no PyTorch (2): "
        "python3 has no pytest (Debian: python3-pytest)",
        f"NOT RUN: PyTorch tests (5): {REASON}",
    ]


def test_a_failure_of_what_was_run_is_not_hidden(checkout):
    (checkout.folder / "tests/cli/test_plain.py").write_text("def test_one():\n    assert False\n")
    done = checkout.run("scripts/test.sh")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"NOT RUN: PyTorch tests (5): {REASON}"


def test_where_pytorch_is_required_set_up_fails(set_up_once):
    done = set_up_once.set_up(REQUIRE_TORCH="1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"setup: PyTorch is required here (REQUIRE_TORCH=1) but {REASON}"
    )


def test_where_pytorch_is_required_the_tests_fail(checkout):
    done = checkout.run("scripts/test.sh", REQUIRE_TORCH="1")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"NOT RUN: PyTorch tests (5): {REASON}"


def test_continuous_integration_requires_pytorch(tmp_path):
    """.ci/run is `make test` with the variable, and nothing from standard input."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    _script(tmp_path / "bin" / "make", 'echo "$@ REQUIRE_TORCH=$REQUIRE_TORCH"; cat')
    done = subprocess.run(
        [tmp_path / ".ci" / "run"],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        input="never read",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "test REQUIRE_TORCH=1\n")
