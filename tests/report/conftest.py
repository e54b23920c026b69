# SPDX-License-Identifier: Apache-2.0
import json
import stat
import sys

import pytest

from . import samples


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The samples as files, and a command that answers with the sample simulation."""
    written = {}
    for name in ("TRACE", "PLAN", "SIMULATION", "COMPARED", "STATISTICS"):
        written[name] = str(tmp_path / f"{name.lower()}.json")
        with open(written[name], "w", encoding="utf-8") as file:
            json.dump(getattr(samples, name), file)
    command = tmp_path / "spillway"
    command.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"assert sys.argv[1] == 'simulate' and '--json' in sys.argv\n"
        f"sys.stdout.write(open({written['SIMULATION']!r}).read())\n"
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("SPILLWAY_COMMAND", str(command))
    return written
