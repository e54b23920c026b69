# SPDX-License-Identifier: Apache-2.0
"""The README's lines give a working installation, and pip says what to do where its flag is left
out."""

import importlib.metadata
import json
import shutil
import venv

import pytest

from tests.packaging.commands import ROOT, run
from tests.packaging.fresh_environment import (
    lines_of_readme,
    pip,
    site_packages,
    skip_without_index,
)

# The first one waits for a build, which takes minutes where nothing has been built before.
pytestmark = pytest.mark.timeout(3000)

PROGRAM = """
import json, torch
tensors = [torch.full((4 << 20,), float(i)) for i in range(6)]
total = sum(tensor.sum().item() for tensor in tensors)
import spillway
statistics = spillway.stats()
print(json.dumps({"file": spillway.__file__, "total": total, "budget": statistics.budget_bytes,
                  "peak": statistics.peak_device_bytes, "evicted": statistics.evicted_bytes}))
"""
MIB = 1 << 20


def test_a_budget_manages_a_program(fresh):
    told = run(fresh, "-c", PROGRAM, SPILLWAY_BUDGET="48MiB", PYTHONPATH="")
    seen = json.loads(told.stdout)
    assert seen["file"].startswith(str(site_packages(fresh)))
    assert seen["total"] == (4 << 20) * 15
    assert seen["budget"] == 48 * MIB
    assert seen["peak"] <= 48 * MIB
    assert seen["evicted"] >= 48 * MIB


def test_the_readme_names_all_that_is_run():
    """README's lines are those that `fresh` runs; none sends anybody to an index for a package of
    our name.
    """
    lines = lines_of_readme()
    assert lines[-2:] == ["pip install --no-build-isolation .", "spillway doctor"]
    assert "pip install -r requirements/build.txt" in lines
    assert not [line for line in lines if "install" in line and "spillway" in line]


def test_the_command_is_installed(fresh):
    (info,) = site_packages(fresh).glob("spillway-*.dist-info")
    told = run(fresh.parent / "spillway", "--version", PYTHONPATH="").stdout
    assert info.stem.removeprefix("spillway-") in told


def test_the_command_knows_the_machines_of_the_package(fresh, tmp_path):
    """In a copy with one machine alone, since the source tree's would pass for the package's."""
    (tmp_path / "bin").mkdir()
    command = shutil.copy(fresh.parent / "spillway", tmp_path / "bin")
    (machine,) = site_packages(fresh).glob("spillway/machines/v100-pcie.json")
    packages = site_packages(fresh).relative_to(fresh.parent.parent)
    machines = tmp_path / packages / "spillway/machines"
    machines.mkdir(parents=True)
    shutil.copy(machine, machines / "the-only-one.json")
    words = ("plan", write_trace(tmp_path), "--budget", "1GiB", "--machine", "v100-pcie")
    assert "Known: the-only-one." in run(command, *words, status=2).stderr


def write_trace(folder):
    path = folder / "step.json"
    storage = {"id": 0, "bytes": MIB, "role": "activation"}
    op = {"name": "op", "ns": 1000, "creates": [0], "writes": [0], "frees": [0]}
    path.write_text(json.dumps({"spillway_trace": 2, "storages": [storage], "ops": [op]}))
    return path


def test_nothing_else_is_installed(fresh):
    (info,) = site_packages(fresh).glob("spillway-*.dist-info")
    files = {str(file) for file in importlib.metadata.Distribution.at(info).files}
    ours = {file for file in files if not file.startswith(f"{info.name}/")}
    assert "../../../bin/spillway" in ours
    assert "spillway/include/spillway/spillway_torch.hpp" in ours
    assert {file for file in ours if not file.startswith("spillway/")} == {"../../../bin/spillway"}
    assert [file for file in ours if file.endswith(".hpp")] == [
        "spillway/include/spillway/spillway_torch.hpp"
    ]


def test_libtorch_programs_find_the_package(fresh, tmp_path):
    configure = ["cmake", "-S", ROOT / "examples/libtorch", "-B", tmp_path]
    run(*configure, f"-DPython_EXECUTABLE={fresh}", PYTHONPATH="")
    cache = (tmp_path / "CMakeCache.txt").read_text(encoding="utf-8")
    assert f"spillway_DIR:PATH={site_packages(fresh)}/spillway/cmake" in cache


def test_build_isolation_stops_with_a_sentence(torch_folder, tmp_path):
    folder = tmp_path / "isolated"
    venv.create(folder, symlinks=True, with_pip=True)
    python = folder / "bin" / "python"
    # A torch of its own, not one borrowed through a .pth, which build isolation would let pass.
    (site_packages(python) / "torch").symlink_to(torch_folder)
    done = pip(
        python, "install", "--no-deps", "--config-settings", f"build-dir={tmp_path / 'build'}", "."
    )
    assert done.returncode != 0, done.stdout
    if "scikit-build-core" in done.stdout and "No matching distribution" in done.stdout:
        skip_without_index(f"the build requirements cannot be had:\n{done.stdout[-1000:]}")
    sentence = (
        "Spillway builds against the torch or tensorflow of your environment: "
        "use pip install --no-build-isolation ."
    )
    assert sentence in done.stdout, done.stdout[-4000:]
    assert not (site_packages(python) / "spillway").exists()
