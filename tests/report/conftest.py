# SPDX-License-Identifier: Apache-2.0
import json
import stat
import sys

import pytest

from . import samples


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


@pytest.fixture
def files_without_host(files):
    """Those of a machine whose only slower tier is the disk."""
    write(files["PLAN"], samples.without_host(samples.PLAN))
    write(files["SIMULATION"], samples.without_host(samples.SIMULATION))
    return files


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The samples as files, and a command that answers with the sample simulation."""
    written = {}
    for name in ("TRACE", "PLAN", "SIMULATION", "COMPARED", "STATISTICS"):
        written[name] = str(tmp_path / f"{name.lower()}.json")
        write(written[name], getattr(samples, name))
    command = tmp_path / "spillway"
    command.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"assert sys.argv[1] == 'simulate' and '--json' in sys.argv\n"
        f"sys.stdout.write(open({written['SIMULATION']!r}).read())\n"
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("SPILLWAY_COMMAND", str(command))
    return written
