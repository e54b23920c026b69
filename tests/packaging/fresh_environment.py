# SPDX-License-Identifier: Apache-2.0
"""A virtual environment that sees this interpreter's framework, and Spillway installed in it as the
README says, line by line."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.packaging.commands import ROOT, clean_environment

# Short, so that a machine without a package index is found out within seconds.
PIP = ["-m", "pip", "--disable-pip-version-check", "--timeout", "15", "--retries", "1"]


def pip_environment():
    """Whatever PYTHONPATH adds would pass for installed."""
    return {key: value for key, value in clean_environment().items() if key != "PYTHONPATH"}


def pip(python, *words):
    return subprocess.run(
        [python, *PIP, *words],
        env=pip_environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def skip_without_index(reason):
    if os.environ.get("REQUIRE_TORCH") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def install(folder, lend):
    """Returns the environment's interpreter; one call makes it, the others find it. `lend` gives
    it the framework: `borrow`, or `link`.
    """
    python = folder / "bin" / "python"
    outcome = folder / "outcome.json"
    if not outcome.exists():
        venv.create(folder, symlinks=True, with_pip=True)
        lend(python)
        outcome.write_text(json.dumps(install_into(python)), encoding="utf-8")
    problem = json.loads(outcome.read_text(encoding="utf-8"))
    if problem is not None and problem["index"]:
        skip_without_index(problem["text"])
    assert problem is None, problem["text"]
    return python


def borrow(python):
    """Lets the environment see all that this interpreter's site-packages have, torch and pip too,
    below its own."""
    own = site_packages(python)
    folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in folders]
    (own / "borrowed.pth").write_text("".join(lines), encoding="utf-8")


# What pip installs for the build, which would go through a link into the other environment.
FOR_THE_BUILD = ("packaging", "pathspec", "pip", "scikit_build_core", "setuptools")


def link(python):
    """As `borrow`, but for a Spillway there: `import tensorflow` opens what lies in a folder
    of plugins wherever there is one.
    """
    own = site_packages(python)
    for folder in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for entry in folder.iterdir():
            is_ours = entry.name.startswith(("spillway", "tensorflow-plugins", *FOR_THE_BUILD))
            if not is_ours and not (own / entry.name).exists():
                (own / entry.name).symlink_to(entry)


def site_packages(python):
    question = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([python, "-c", question], check=True, capture_output=True, text=True)
    return Path(told.stdout.strip())


def lines_of_readme():
    """Returns the lines to copy from the README's section on installing."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Install\n")[1]
    section = section.split("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert lines, section
    return lines


def install_into(python):
    """Returns what failed, or nothing."""
    environment = pip_environment() | {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_DEFAULT_TIMEOUT": "15",
        "PIP_RETRIES": "1",
    }
    for line in lines_of_readme():
        done = subprocess.run(
            ["bash", "-c", line],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode == 0:
            continue
        text = f"{line}\nended with {done.returncode}\n{done.stdout[-8000:]}"
        if "-r requirements/" in line:
            reason = "requirements/build.txt cannot be installed: does a package index answer?"
            return {"index": True, "text": f"{reason}\n{text}"}
        return {"index": False, "text": text}
    return None
