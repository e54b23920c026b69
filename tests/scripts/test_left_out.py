# SPDX-License-Identifier: Apache-2.0
"""Tests left out for want of a package or a tool are told, and fail where all must be there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIRED = pytest.mark.parametrize("required", [False, True], ids=["may-lack", "must-be-there"])


def _run(command, folder, required, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "REQUIRE_TORCH"}
    environment |= {"REQUIRE_TORCH": "1"} if required else {}
    return subprocess.run(
        command, cwd=folder, env=environment | variables,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@REQUIRED
def test_a_module_whose_package_is_missing(tmp_path, required):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\npytest.importorskip('no_such_package', reason='it is needed')\n"
    )
    (tmp_path / "test_two.py").write_text("def test_two():\n    pass\n")
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors", "-rs"]
    done = _run([sys.executable, "-m", "pytest", *options, "."], tmp_path, required)
    assert done.returncode == required, done.stdout
    assert "it is needed" in done.stdout
    assert ("1 passed, 1 error" if required else "1 passed, 1 skipped") in done.stdout


@pytest.mark.parametrize("parts", ["", "C++ tests, TensorFlow tests"], ids=["well", "failed"])
def test_closing_lines_name_the_parts_that_failed_before(tmp_path, parts):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "."]
    done = _run(command, tmp_path, required=False, FAILED_PARTS=parts)
    told = [line for line in done.stdout.splitlines() if line.startswith("FAILED before")]
    assert told == ([f"FAILED before these tests: {parts}"] if parts else []), done.stdout


@REQUIRED
def test_a_linter_that_is_missing(tmp_path, required):
    """The quick checks, in a checkout with two files and a path without tools."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "lint.py", checkout / "scripts")
    (checkout / "scripts" / "check_layers.py").write_text("# SPDX-License-Identifier: none\n")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    command = [bare / "bin" / "python3", "scripts/lint.py", "--quick"]
    done = _run(command, checkout, required, PATH=str(tmp_path / "nothing"))
    told = [line for line in done.stdout.splitlines() if "is not installed" in line]
    assert told == [
        "lint: clang-format 14. is not installed, so its checks are left out",
        "lint: ruff is not installed, so its checks are left out",
    ]
    assert done.returncode == required, done.stdout + done.stderr
