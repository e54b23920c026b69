# SPDX-License-Identifier: Apache-2.0
"""`spillway run` on a terminal: the status row, and the terminal after it."""

import re
import shlex
import signal
import subprocess
import time

import pytest

from tests.cli.pseudo_terminal import program

RUN = ("run", "--budget", "1MiB", "--summary", "off")
STATUS = "spillway 812 MiB / 1 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  step 12"


def assert_restored(terminal):
    """The whole screen scrolls again and no trace of the row is left."""
    assert terminal.screen.region() == (1, terminal.screen.rows)
    assert not any("spillway 812" in row for row in terminal.screen.history())


def test_the_row_appears_and_goes(terminal):
    one = terminal(*RUN, "--", *program("print=hello", "claim", "sleep=0.7", "print=bye"))
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    assert one.screen.region() == (1, 9)
    assert one.finish() == 0
    assert_restored(one)
    assert one.screen.text()[:3] == ["hello", "bye", ""]


def test_nothing_before_a_slot_is_claimed(terminal):
    one = terminal(*RUN, "--status", "on", "--", *program("print=hello", "sleep=0.7", "exit=2"))
    assert one.finish() == 2
    assert one.raw == "hello\r\n"


@pytest.mark.parametrize(
    "words, changes",
    [
        (("--status", "off"), {}),
        ((), {"TERM": "dumb"}),
        ((), {"TERM": ""}),
    ],
)
def test_no_row_where_it_is_not_wanted(terminal, words, changes):
    one = terminal(*RUN, *words, "--", *program("claim", "sleep=0.7"), **changes)
    assert one.finish() == 0
    assert one.raw == ""


def test_no_row_where_standard_error_is_no_terminal(terminal):
    one = terminal(*RUN, "--", *program("claim", "sleep=0.7"), stderr=subprocess.DEVNULL)
    assert one.finish() == 0
    assert one.raw == ""


def test_asked_for_it_shows_although_standard_error_is_no_terminal(terminal):
    one = terminal(
        *RUN, "--status", "on", "--", *program("claim", "sleep=5"), stderr=subprocess.DEVNULL
    )
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")


# Output reaches the bottom, the row is taken there, and every line is still seen once, in order.
def test_no_line_of_a_scrolling_program_is_lost(terminal):
    one = terminal(*RUN, "--", *program("lines=30", "claim", "sleep=0.5", "lines=30", "sleep=0.3"))
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    assert one.screen.text()[-3:-1] == ["line 29", ""]
    assert one.finish() == 0
    assert_restored(one)
    seen = [row for row in one.screen.history() if row]
    assert seen == [f"line {number}" for number in range(30)] * 2


# tqdm writes \r and its line about as often as we refresh; neither may show in the other's row.
@pytest.mark.parametrize("lines_first", [0, 3, 30])
def test_a_progress_bar_keeps_its_line(terminal, lines_first):
    one = terminal(*RUN, "--", *program(f"lines={lines_first}", "claim", "bar=60"))

    def check():
        rows = one.screen.text()
        assert sum("%|" in row for row in rows) <= 1
        assert not any("spillway" in row for row in rows[:-1])
        # Not one exact share: on a busy machine several updates arrive between two looks.
        return re.search(r" [3-8]\d%\|", "\n".join(rows)) is not None

    one.until(check, "bar about half-way")
    assert one.screen.text()[-1] == STATUS
    assert one.finish() == 0
    assert_restored(one)
    assert "100%|####################|" in one.screen.text()


def test_an_unfinished_line_at_the_bottom_stays_whole(terminal):
    one = terminal(
        *RUN, "--", *program("lines=9", "partial=loss ", "claim", "sleep=0.6", "partial=0.25")
    )
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    one.finish()
    assert_restored(one)
    assert "loss 0.25" in one.screen.text()


@pytest.mark.parametrize("columns", [12, 20, 40, 60, 79, 200])
def test_narrow_terminals_get_a_shorter_line(terminal, columns):
    one = terminal(*RUN, "--", *program("claim", "sleep=0.7"), columns=columns)
    one.until(lambda: "812 MiB" in one.screen.text()[-1], "status")
    assert not any(one.screen.text()[:-1])
    assert one.finish() == 0
    assert one.screen.region() == (1, 10)
    assert not any(one.screen.text())


@pytest.mark.parametrize("rows, columns", [(3, 80), (10, 8)])
def test_tiny_terminals_get_none(terminal, rows, columns):
    one = terminal(*RUN, "--", *program("claim", "sleep=0.7"), rows=rows, columns=columns)
    assert one.finish() == 0
    assert one.raw == ""


@pytest.mark.parametrize("rows", [6, 9, 16])
def test_the_row_follows_the_size(terminal, rows):
    one = terminal(*RUN, "--", *program("lines=5", "claim", "sleep=5"), rows=10)
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    one.resize(rows, 60)
    one.until(lambda: "step 12" in one.screen.text()[-1], "status after the change")
    assert one.screen.region() == (1, rows - 1)
    one.process.send_signal(signal.SIGTERM)
    assert one.finish() == -signal.SIGTERM
    assert one.screen.region() == (1, rows)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV"])
def test_restored_when_the_program_dies(terminal, name):
    one = terminal(*RUN, "--", *program("claim", "sleep=0.7", f"die={name}"))
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    assert one.finish() == -getattr(signal, name)
    assert_restored(one)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
def test_restored_when_the_command_is_signalled(terminal, name):
    one = terminal(
        *RUN, "--", "sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *program("claim", "sleep=15")
    )
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    one.process.send_signal(getattr(signal, name))
    assert one.finish() == -getattr(signal, name)
    assert_restored(one)


#   terminal --SIGINT--> { spillway, program }      not again: spillway --SIGINT--> program
def test_ctrl_c_reaches_the_program_once(terminal):
    one = terminal(*RUN, "--", *program("claim", "signals"))
    one.until_text("ready")
    one.type("\x03")
    time.sleep(0.3)
    one.process.send_signal(signal.SIGTERM)
    one.until_text("seen SIGINT SIGTERM")
    assert one.finish() == 9
    assert_restored(one)


# Signals that arrive close together merge, so a second one is only sure to be seen where the first
# does not arrive: in a program that has left the group of the terminal.
def test_ctrl_c_is_left_to_the_terminal(terminal):
    one = terminal(*RUN, "--", *program("claim", "own-group", "signals"))
    one.until_text("ready")
    one.type("\x03")
    time.sleep(0.3)
    one.process.send_signal(signal.SIGTERM)
    one.until_text("seen ")
    # The terminal's echo of the key may stand before it on the line.
    assert any(line.endswith("seen SIGTERM") for line in one.screen.history())
    assert one.finish() == 9


def test_summary_comes_after_the_row_is_gone(terminal):
    one = terminal("run", "--budget", "1MiB", "--", *program("claim", "sleep=0.7"), rows=24)
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    assert one.finish() == 0
    assert_restored(one)
    assert one.screen.text()[0] == "spillway: enforce for 25 s"


def test_several_processes_are_counted_and_leave(terminal):
    one = terminal(*RUN, "--", *program("fork=1", "fork=1", "sleep=5"))
    one.until(lambda: one.screen.text()[-1].startswith("spillway 2x 1.6 GiB / 2 GiB"), "sum")


# Ctrl-S stops the terminal: an update would block, and with it the wait for the program.
def test_a_stopped_terminal_does_not_hold_the_command(terminal):
    one = terminal(*RUN, "--", *program("claim", "sleep=1.5", "exit=3"))
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    one.type("\x13")
    deadline = time.monotonic() + 10
    while one.process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    one.type("\x11")
    assert one.finish() == 3


#   Ctrl-Z: the shell's prompt must find a whole terminal; after `fg` the row is back.
def test_suspended_and_continued(terminal, command):
    shell = ("bash", "--norc", "--noprofile", "--noediting", "-i")
    one = terminal(first=shell, PS1="ready: ", rows=20)
    one.until_text("ready:")
    one.type(shlex.join([command, *RUN, "--", *program("claim", "sleep=30")]) + "\n")
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    one.type("\x1a")
    one.until_text("Stopped")
    assert one.screen.region() == (1, 20)
    assert STATUS not in one.screen.text()
    one.type("fg\n")
    one.until(lambda: one.screen.text()[-1] == STATUS, "status again")
    one.type("\x03")
    one.until(lambda: one.screen.region() == (1, 20), "restored terminal")
    one.type("exit 0\n")
    one.finish()
    assert_restored(one)


def test_hang_up_ends_program_and_command(terminal):
    one = terminal(*RUN, "--", *program("claim", "sleep=30"))
    one.until(lambda: one.screen.text()[-1] == STATUS, "status")
    one.hang_up()
    assert one.process.wait(timeout=10) == -signal.SIGHUP
