# SPDX-License-Identifier: Apache-2.0
"""The installed library: its dependencies, the torch that it accepts, inactive unless asked."""

import json
import os
import re
import shutil
import sys

import pytest

from tests.packaging.commands import run


@pytest.fixture
def moved(library, tmp_path):
    """Makes a copy of the package whose library claims to be for another minor version; returns
    a PYTHONPATH."""

    def move(minor):
        package = tmp_path / "spillway"
        shutil.copytree(library.parents[1], package, ignore=shutil.ignore_patterns("lib"))
        (package / "lib").mkdir()
        (package / "lib" / f"libspillway_torch-2.{minor}.so").symlink_to(library.resolve())
        # In front: what registers the entry point may itself be there.
        return os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)

    return move


def minor_of(library):
    return int(library.stem.split(".")[-1])


def test_only_two_libraries_of_torch_are_needed(library, torch_folder):
    dynamic = run("readelf", "--dynamic", "--wide", library).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    of_torch = {name for name in needed if (torch_folder / "lib" / name).exists()}
    assert of_torch == {"libc10.so", "libtorch_cpu.so"}
    assert not {name for name in needed if re.search(r"python|cuda|cudnn|nccl|nv", name)}
    # It finds torch's libraries because torch has loaded them, wherever torch lies.
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


def test_nothing_of_its_dependencies_is_exported(library):
    symbols = run("nm", "--dynamic", "--defined-only", "--demangle", library).stdout
    functions = re.findall(r"^[0-9a-f]+ T (.+)$", symbols, re.MULTILINE)
    assert functions
    assert [name for name in functions if not name.startswith(("spillway_", "spillway::"))] == []


def test_the_library_knows_the_torch_it_is_for(library):
    minor = minor_of(library)
    program = (
        "import ctypes, sys, torch; check = ctypes.CDLL(sys.argv[1]).spillway_check_torch; "
        f"print(check(2, {minor}), check(2, {minor + 1}), check(2, {minor - 1}), check(3, {minor}))"
    )
    told = run(sys.executable, "-c", program, library).stdout
    assert told.split() == ["0", str(minor), str(minor), str(minor)]


def test_a_library_named_for_another_torch_is_not_taken(library, moved):
    minor = minor_of(library)
    path = moved(minor - 1)
    refused = run(
        sys.executable, "-c", "import torch", status=2, PYTHONPATH=path, SPILLWAY_BUDGET="1GiB"
    )
    assert f"no adapter for torch 2.{minor}." in refused.stderr
    assert f"this installation has 2.{minor - 1};" in refused.stderr
    assert "pip install --no-build-isolation ." in refused.stderr


def test_a_misnamed_library_is_refused_by_what_it_says_itself(library, moved):
    """As if torch had been replaced and the library renamed: the torch of the process says it is
    older."""
    minor = minor_of(library)
    program = (
        f"import torch; torch.__version__ = '2.{minor - 1}.0'\n"
        "import spillway\n"
        "try: spillway.enable('1GiB')\n"
        "except RuntimeError as error: print(error)"
    )
    told = run(sys.executable, "-c", program, PYTHONPATH=moved(minor - 1)).stdout
    assert f"was built for torch 2.{minor}, this is 2.{minor - 1}.0" in told


def test_not_strict_goes_on_without_a_limit(library, moved):
    variables = {"SPILLWAY_BUDGET": "1GiB", "SPILLWAY_STRICT": "0"}
    path = moved(minor_of(library) - 1)
    told = run(sys.executable, "-c", "import torch; print(1)", PYTHONPATH=path, **variables)
    assert told.stdout.strip() == "1"
    assert "spillway: not active: no adapter for torch" in told.stderr


def test_without_a_variable_nothing_is_loaded():
    package = {"spillway", "spillway._autoload", "spillway._native", "spillway._session"}
    program = (
        "import json, sys, torch; maps = open('/proc/self/maps').read(); "
        "print(json.dumps(['libspillway' in maps, sorted(m for m in sys.modules "
        "if m.startswith('spillway'))]))"
    )
    loaded, modules = json.loads(run(sys.executable, "-c", program).stdout)
    assert not loaded
    assert set(modules) <= package
    loaded, _ = json.loads(run(sys.executable, "-c", program, SPILLWAY_BUDGET="1GiB").stdout)
    assert loaded, "the check sees nothing, or Spillway is not installed"
