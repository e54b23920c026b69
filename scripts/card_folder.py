# SPDX-License-Identifier: Apache-2.0
"""Makes one folder that asks a graphics card everything, on a machine without network or compiler.

    source build/environment.sh; "$spillway_venv/bin/python" scripts/card_folder.py GATE FOLDER

It holds what is installed in the environment of the interpreter that runs this, without symbols,
the libraries that it needs beside PyTorch's and the C library, `gate`, tests and benchmarks. There

    FOLDER/check [PART...]

runs it under `python3`, whose PyTorch and Python have to be of the versions that it was built for.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of these any machine has its own.
SYSTEM = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")
TRACKED = (
    "tests/__init__.py",
    "tests/gpu",
    "tests/oracle",
    "tests/standin",
    "benchmarks",
    "docs/gpu",
    "machines",
)
START = """#!/bin/sh
# Asks this machine's graphics card; results in gpu-check.json and gate.json of this folder, or of
# CHECK_OUT. See docs/gpu/README.md.
cd "$(dirname "$0")" || exit
export PYTHONPATH="$PWD/site:$PWD" PATH="$PWD/bin:$PATH"
export LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec python3 -m tests.gpu.check --gate gate --json "${CHECK_OUT:-.}/gpu-check.json" "$@"
"""


def needed_by(binary):
    """The libraries that the loader finds for it, less the system's and those beside PyTorch."""
    said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"=> (/\S+)", said)
    return [
        pathlib.Path(path) for path in found if not SYSTEM.search(path) and "/torch/" not in path
    ]


def strip(binary):
    subprocess.run(["strip", "--strip-unneeded", binary], check=True)


def copy_package(folder):
    """What install_package.py put into the environment; the TensorFlow plugin stays behind."""
    site = pathlib.Path(sysconfig.get_path("platlib"))
    leave = shutil.ignore_patterns("__pycache__", "libspillway_tensorflow*")
    for found in [site / "spillway", *site.glob("spillway-*.dist-info")]:
        shutil.copytree(found, folder / "site" / found.name, ignore=leave)
    (folder / "bin").mkdir()
    shutil.copy2(pathlib.Path(sysconfig.get_path("scripts")) / "spillway", folder / "bin")


def copy_sources(folder):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *TRACKED],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in listed:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def main(gate, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_package(folder)
    copy_sources(folder)
    shutil.copy2(gate, folder / "gate")
    binaries = [
        folder / "gate",
        folder / "bin" / "spillway",
        *folder.glob("site/spillway/lib/*.so"),
    ]
    (folder / "lib").mkdir()
    for binary in binaries:
        strip(binary)
        for library in needed_by(binary):
            shutil.copy2(library, folder / "lib" / library.name)
    start = folder / "check"
    start.write_text(START)
    start.chmod(0o755)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
