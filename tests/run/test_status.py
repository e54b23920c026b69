# SPDX-License-Identifier: Apache-2.0
"""The live status under a training that shows a progress bar of tqdm's, on one terminal."""

import re
import sys

from tests.run.launch import PATIENCE, TRAIN, Run, read, require_managed, train

BUDGET = 96 << 20
STEPS = 8
STATUS = re.compile(
    r"^spillway [\d.]+ MiB / 96 MiB  disk [\d.]+ MiB  moved [\d.]+ [MG]iB(/step)?  "
    r"stall \d+ %  step [1-8]"
)
BAR = re.compile(r"^training: +(\d+)%\|.*\| (\d)/8 \[")


def test_status_and_progress_bar_keep_to_their_rows(command, terminal, tmp_path):
    stock = train(tmp_path / "stock", steps=STEPS).require_success()
    report = tmp_path / "report"
    program = [sys.executable, str(TRAIN), str(report), "--steps", str(STEPS), "--bar"]
    one = terminal("run", "--budget", "96MiB", "--summary", "off", "--", *program)
    one.patience = PATIENCE
    steps_shown = set()

    def both_seen():
        rows = one.screen.text()
        bars = [BAR.match(row) for row in rows if "%|" in row]
        assert len(bars) <= 1 and all(bars), rows
        assert not any("spillway" in row for row in rows[:-1]), rows
        if bars and STATUS.match(rows[-1]):
            steps_shown.add(int(bars[0][2]))
        return len(steps_shown & set(range(1, STEPS))) >= 2  # the bar went on beside the status

    one.until(both_seen, "bar and status at two steps")
    assert one.screen.region() == (1, 9)
    assert one.finish() == 0, one.screen.text()
    assert one.screen.region() == (1, 10)
    rows = one.screen.history()
    assert not any("spillway" in row for row in rows), rows
    (bar,) = [row for row in rows if row]
    assert bar.startswith("training: 100%|") and "| 8/8 [" in bar, bar
    managed = Run(0, "", read(report))
    assert managed.results == stock.results
    require_managed(managed, BUDGET)
