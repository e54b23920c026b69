# SPDX-License-Identifier: Apache-2.0
"""`spillway run` without a terminal: exit statuses, environment, summary, mistakes."""

import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from tests.cli.pseudo_terminal import clean_environment, program

BUDGET = ("--budget", "1MiB")


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_status_is_the_programs(spillway, code):
    assert spillway("run", *BUDGET, "--", *program(f"exit={code}")).returncode == code


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT", "SIGALRM"])
def test_death_by_a_signal_is_passed_on(spillway, name):
    result = spillway("run", *BUDGET, "--", *program(f"die={name}"))
    assert result.returncode == -getattr(signal, name)


def test_streams_are_the_programs_own(spillway):
    result = spillway(
        "run",
        *BUDGET,
        "--summary",
        "off",
        "--",
        *program("read", "terminal", "print=done"),
        stdin="from stdin\n",
    )
    assert result.stdout == "read from stdin\nterminal False False False\ndone\n"
    assert result.stderr == ""


def test_nothing_but_the_summary_in_a_pipe(spillway):
    result = spillway(
        "run",
        *BUDGET,
        "--status",
        "on",
        "--summary",
        "off",
        "--",
        *program("claim", "sleep=0.6"),
        TERM="dumb",
    )
    assert result.stderr == "spillway: --status on: there is no terminal to show a status on.\n"
    result = spillway("run", *BUDGET, "--summary", "off", "--", *program("claim", "sleep=0.6"))
    assert (result.stdout, result.stderr) == ("", "")


def test_settings_reach_the_program(spillway, tmp_path):
    result = spillway(
        "run",
        "--budget",
        "2MiB",
        "--disk-budget",
        "1GiB",
        "--spool-dir",
        str(tmp_path),
        "--min-size",
        "8KiB",
        "--over",
        "allow",
        "--",
        *program(
            *(
                f"variable=SPILLWAY_{name}"
                for name in ("BUDGET", "DISK_BUDGET", "SPOOL_DIR", "MIN_SIZE", "OVER")
            )
        ),
    )
    assert result.stdout.splitlines() == [
        "SPILLWAY_BUDGET=2MiB",
        "SPILLWAY_DISK_BUDGET=1GiB",
        f"SPILLWAY_SPOOL_DIR={tmp_path}",
        "SPILLWAY_MIN_SIZE=8KiB",
        "SPILLWAY_OVER=allow",
    ]


def test_a_flag_wins_over_the_environment(spillway):
    result = spillway(
        "run",
        "--budget",
        "2MiB",
        "--",
        *program("variable=SPILLWAY_BUDGET"),
        SPILLWAY_BUDGET="3MiB",
    )
    assert result.stdout == "SPILLWAY_BUDGET=2MiB\n"


def test_record_sets_mode_and_trace(spillway, tmp_path):
    path = tmp_path / "step.json"
    result = spillway(
        "record",
        "-o",
        str(path),
        "--",
        *program("variable=SPILLWAY_MODE", "variable=SPILLWAY_TRACE", "claim"),
    )
    assert result.stdout == f"SPILLWAY_MODE=record\nSPILLWAY_TRACE={path}\n"
    assert "no trace was written" in result.stderr


def test_summary_names_the_figures(spillway):
    result = spillway("run", *BUDGET, "--", *program("claim"))
    assert result.returncode == 0
    for text in (
        "peak 1021 MiB of budget 1 GiB",
        "12 GiB, of which 4 GiB clean",
        "fetched   11 GiB",
        "written 8 GiB, read 11 GiB",
        "threads; io_uring: forbidden here, as in most containers",
        "1 s, 4 % of 25 s",
        "12, the last took 1.8 s",
        "aten::convolution",
    ):
        assert text in result.stderr
    assert max(map(len, result.stderr.splitlines())) <= 80


def test_summary_sums_processes(spillway):
    result = spillway("run", *BUDGET, "--", *program("fork=0.2", "fork=0.2", "sleep=0.5"))
    assert "in 2 processes" in result.stderr
    assert "24 GiB, of which 8 GiB clean" in result.stderr


def test_summary_is_printed_once_even_if_the_variable_asks_too(spillway):
    result = spillway(
        "run", *BUDGET, "--", *program("claim", "variable=SPILLWAY_SUMMARY"), SPILLWAY_SUMMARY="1"
    )
    assert result.stdout == "SPILLWAY_SUMMARY=None\n"
    assert result.stderr.count("spillway: enforce") == 1


def test_summary_off(spillway):
    assert spillway("run", *BUDGET, "--summary", "off", "--", *program("claim")).stderr == ""


def test_a_program_that_never_loads_pytorch_is_told_of(spillway):
    result = spillway("run", *BUDGET, "--", *program("exit=0"))
    assert "loaded no framework with Spillway" in result.stderr
    assert "spillway doctor" in result.stderr
    result = spillway("run", *BUDGET, "--", *program("exit=0"), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set" in result.stderr


def test_running_without_a_budget_is_said(spillway):
    result = spillway("run", "--", *program("exit=4"))
    assert result.returncode == 4
    assert "no budget is set" in result.stderr


def test_programs_without_python_work(spillway, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho from a script $1\nexit 5\n")
    script.chmod(0o755)
    result = spillway("run", *BUDGET, str(script), "word")
    assert (result.returncode, result.stdout) == (5, "from a script word\n")


def test_a_program_that_is_not_there(spillway, tmp_path):
    result = spillway("run", *BUDGET, "--", "no-such-program")
    assert (result.returncode, result.stderr) == (
        127,
        'spillway: Cannot run "no-such-program": no such program on PATH.\n',
    )
    assert spillway("run", *BUDGET, "--", str(tmp_path / "none")).returncode == 127
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    result = spillway("run", *BUDGET, "--", str(script))
    assert result.returncode == 127
    assert "interpreter" in result.stderr


def test_a_program_that_cannot_be_executed(spillway, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print()\n")
    script.chmod(stat.S_IRUSR)
    result = spillway("run", *BUDGET, "--", str(script))
    assert result.returncode == 126
    assert "not executable" in result.stderr
    result = spillway("run", *BUDGET, "--", str(tmp_path))
    assert result.returncode == 126
    assert "directory" in result.stderr


@pytest.mark.parametrize(
    "words, text",
    [
        (("rnu", "--", "true"), 'Did you mean "run"?'),
        (("run", "--bugdet", "1GiB", "--", "true"), 'Did you mean "--budget"?'),
        (("run", "--mode", "enforec", "--", "true"), "enforce"),
        (("run", "--budget", "twelve", "--", "true"), "twelve"),
        (("run", "--budget", "0", "--", "true"), "--budget: "),
        (
            ("run", "--budget", "500KiB", "--", "true"),
            "too little: need 1 MiB, short 524 KiB. Give",
        ),
        (("run", "--budget", "1,5GiB", "--", "true"), "with a point, such as 1.5GiB"),
        (("run", "--budget", "900TiB", "--", "true"), "short"),
        (("run", "--budget", "900TiB", "--", "true"), "--budget"),
        (("run", "--budget", "1GiB"), "No program to run"),
        (("doctor", "--jason"), 'Did you mean "--json"?'),
    ],
)
def test_mistakes_end_with_two_and_a_hint(spillway, words, text):
    result = spillway(*words)
    assert result.returncode == 2
    assert result.stderr.startswith("spillway: ")
    assert text in result.stderr
    assert result.stdout == ""


def test_a_misspelt_variable_is_found_before_the_program_starts(spillway):
    result = spillway("run", "--", *program("print=started"), SPILLWAY_BUGDET="1GiB")
    assert (result.returncode, result.stdout) == (2, "")
    assert "SPILLWAY_BUDGET" in result.stderr


def start_in_background(command, *actions):
    process = subprocess.Popen(
        [command, "run", *BUDGET, "--", *program(*actions)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment({}),
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_signals_to_the_command_alone_are_passed_on_once(command):
    process = start_in_background(command, "signals")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.1)
    output, _ = process.communicate(timeout=20)
    assert output == "seen SIGINT SIGHUP SIGUSR1 SIGTERM\n"
    assert process.returncode == 9


def test_ignored_signals_stay_ignored(command):
    """As under nohup."""
    process = subprocess.Popen(
        [
            command,
            "run",
            *BUDGET,
            "--summary",
            "off",
            "--",
            sys.executable,
            "-c",
            "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment({}),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert process.communicate(timeout=20)[0] == "True\n"


def test_the_programs_signal_mask_is_as_before(spillway):
    result = spillway(
        "run",
        *BUDGET,
        "--",
        sys.executable,
        "-c",
        "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    )
    assert result.stdout == "set()\n"


def test_an_ignored_sigchld_does_not_lose_the_status(command):
    process = subprocess.Popen(
        [command, "run", *BUDGET, "--", *program("exit=6")],
        stderr=subprocess.DEVNULL,
        env=clean_environment({}),
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert process.wait(timeout=20) == 6


def test_a_closed_standard_error_does_not_change_the_status(command):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        [command, "run", *BUDGET, "--", *program("claim", "exit=7")],
        stderr=write_end,
        env=clean_environment({}),
    )
    os.close(write_end)
    assert process.wait(timeout=20) == 7


def test_trace_refuses_what_is_no_trace(spillway, tmp_path):
    path = tmp_path / "step.json"
    path.write_text("not a trace")
    for words in (("show", str(path)), ("stats", str(path)), ("show", str(tmp_path / "none"))):
        result = spillway("trace", *words)
        assert result.returncode == 2
        assert result.stdout == ""


def test_version(spillway):
    assert spillway("--version").stdout.startswith("spillway ")
