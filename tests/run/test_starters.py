# SPDX-License-Identifier: Apache-2.0
"""Whatever starts the program that trains, it is managed: a shell script, a package."""

import shutil
import sys

from tests.run.launch import TRAIN, require_managed, run

BUDGET = 96 << 20


def _run(command, report, *words):
    return run([command, "run", "--budget", str(BUDGET), "--", *words], report)


def test_a_shell_script(command, stock, tmp_path):
    """It does what scripts do around a training, and its own exit status counts."""
    script = tmp_path / "script.sh"
    script.write_text(
        f"""
set -eu
cd "$(dirname "$0")"
report=$(printf '%s' report)
for attempt in 1 2; do
  (exec '{sys.executable}' '{TRAIN}' "$report" --steps "$attempt") | cat
done
'{sys.executable}' '{TRAIN}' "$report" &
wait $!
exit 7
"""
    )
    managed = _run(command, tmp_path / "report", "bash", str(script))
    assert managed.status == 7, managed.stderr[-4000:]
    assert managed.results == stock.results
    require_managed(managed, BUDGET)
    assert " in 3 processes" in managed.stderr, managed.stderr[-2000:]


def test_a_package(command, stock, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("from package.train import main\n\nmain()\n")
    shutil.copy(TRAIN, package)
    managed = _run(command, tmp_path / "report", sys.executable, "-m", "package", "report")
    assert managed.require_success().results == stock.results
    require_managed(managed, BUDGET)
