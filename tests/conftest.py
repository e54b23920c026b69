# SPDX-License-Identifier: Apache-2.0
"""What all tests share."""

import signal


def pytest_configure():
    """A shell's background jobs ignore these signals, and so would the programs under test."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
