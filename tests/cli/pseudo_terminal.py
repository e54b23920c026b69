# SPDX-License-Identifier: Apache-2.0
"""Starts the stand-in program and the command on a pseudo-terminal, and reads its screen."""

import codecs
import fcntl
import os
import pathlib
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from tests.cli.screen import Screen

PATIENCE = 20.0
FAKE_PROGRAM = pathlib.Path(__file__).parent / "fake_program.py"


def clean_environment(changes):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPILLWAY_", "TORCH_"))
    }
    return {**environment, "TERM": "xterm", **changes}


def program(*actions):
    """The command line of the stand-in program."""
    return [sys.executable, str(FAKE_PROGRAM), *actions]


class Terminal:
    """The command as leader of a session on a pseudo-terminal, and what the screen shows."""

    patience = PATIENCE  # seconds for what a test waits for

    def __init__(self, words, rows, columns, environment, stderr):
        self.screen = Screen(rows, columns)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a character may come in two reads
        self.master, slave = os.openpty()
        self._set_size(rows, columns)

        def take_terminal():
            os.setsid()
            # A test run that was itself started by nohup passes "ignored" on.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            words,
            stdin=slave,
            stdout=slave,
            stderr=stderr or slave,
            env=environment,
            preexec_fn=take_terminal,
        )
        os.close(slave)

    def _set_size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self._set_size(rows, columns)

    def read(self, seconds):
        """Takes in what arrives; False once the terminal has no writer left."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        text = self._decoder.decode(data)
        self.raw += text
        self.screen.feed(text)
        return bool(data)

    def until(self, condition, what):
        deadline = time.monotonic() + self.patience
        while not condition():
            alive = self.read(0.05)
            if condition():
                return
            assert alive and time.monotonic() < deadline, f"no {what}; screen:\n" + "\n".join(
                self.screen.text()
            )

    def until_text(self, text):
        self.until(lambda: any(text in row for row in self.screen.history()), repr(text))

    def type(self, text):
        os.write(self.master, text.encode())

    def finish(self):
        """The exit status, negative for a signal, once all output is in."""
        deadline = time.monotonic() + self.patience
        while self.process.poll() is None or self.read(0):
            if self.process.poll() is not None and not select.select([self.master], [], [], 0)[0]:
                break
            self.read(0.05)
            assert time.monotonic() < deadline, "\n".join(self.screen.text())
        return self.process.returncode

    def hang_up(self):
        os.close(self.master)
        self.master = -1

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.master >= 0:
            self.hang_up()
