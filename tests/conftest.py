# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

import datetime
import os
import signal

import pytest


def pytest_configure():
    """Sets the turn by the day: one for all processes of a run. Hides a card, except under
    `make gpu`. A shell's background jobs ignore these signals, as the programs under test would.
    """
    today = datetime.datetime.now(tz=datetime.timezone.utc).toordinal()
    os.environ.setdefault("ORACLE_DAY", str(today))
    if os.environ.get("REQUIRE_GPU") != "1":
        # A budget that names no device would be a card's, and what the tests train is on the CPU.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_terminal_summary(terminalreporter):
    """Names what failed before, in a run of scripts/test.sh."""
    if parts := os.environ.get("FAILED_PARTS"):
        terminalreporter.write_line(f"FAILED before these tests: {parts}", red=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    """Fails a module that is left out for want of a package, where everything has to be there."""
    report = (yield).get_result()
    if report.skipped and os.environ.get("REQUIRE_TORCH") == "1":
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} may not be left out: {report.longrepr[2]}"
