# SPDX-License-Identifier: Apache-2.0
"""Time, steps and peak as `spillway run` tells them, however the program ends."""

import json
import re
import signal
import subprocess
import sys

import pytest

from tests.cli.pseudo_terminal import clean_environment

MIB = 1 << 20
# 4 steps are watched, of which 3 count as whole ones that fit; then the hook rests.
FITS = """
import os, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
begin = time.monotonic()
def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.ones(8, 256)).sum().backward()
        optimizer.step()
def last(seconds):
    while time.monotonic() < begin + seconds:
        time.sleep(0.01)
steps(60)
"""
SHORT = """
import os, sys, torch
torch.set_num_threads(1)
kept = [torch.ones(1 << 20) for _ in range(3)]
def run_short():
    torch.ones(1024, 1024) @ torch.ones(1024, 1024)
"""


def run(command, code, *words, budget="64MiB", **variables):
    return subprocess.run(
        [command, "run", "--budget", budget, "--json", *words, "--", sys.executable, "-c", code],
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        timeout=300,
    )


def told(result):
    """The object of --json, which is the last line."""
    return json.loads(result.stdout.splitlines()[-1])


ENDINGS = {
    "returns": ("", {"exit_status": 0}),
    "exits": ("sys.exit(3)", {"exit_status": 3}),
    "raises": ("raise ValueError('its own')", {"exit_status": 1}),
    "os._exit": ("os._exit(4)", {"exit_status": 4}),
    "SIGTERM": ("os.kill(os.getpid(), 15)", {"signal": signal.SIGTERM}),
    "SIGKILL": ("os.kill(os.getpid(), 9)", {"signal": signal.SIGKILL}),
    "Ctrl-C": ("os.kill(os.getpid(), 2)\nlast(9)", {"signal": signal.SIGINT}),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_of_a_program_that_fits(command, ending):
    code, expected = ENDINGS[ending]
    result = run(command, f"{FITS}\nlast(1.5)\n{code}\n")
    answer = told(result)
    assert {name: answer[name] for name in expected} == expected, result.stderr
    assert answer["steps"] == 60, result.stderr
    stopped = answer["stopped_after_step"]
    assert 3 <= stopped <= 6
    assert f"  fits: stopped watching after step {stopped}\n" in result.stderr
    assert "steps     60, the last took" in result.stderr
    assert answer["elapsed_ns"] >= 1.4e9  # and it was loaded before the clock of the program began
    assert answer["elapsed_ns"] < 250e9
    assert answer["peak_device"] >= MIB // 4
    assert not answer["out_of_memory"] and "out of memory" not in result.stderr
    assert max(map(len, result.stderr.splitlines())) <= 80 or "Traceback" in result.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "run_short()",
        "try: run_short()\nexcept RuntimeError as error: raise SystemExit(5)",
        "try: run_short()\nexcept RuntimeError as error: raise ValueError('no') from error",
        "try: run_short()\nexcept RuntimeError: os._exit(6)",
        "try: run_short()\nexcept RuntimeError: os.kill(os.getpid(), 9)",
    ],
)
def test_of_a_program_that_is_short(command, ending):
    result = run(command, SHORT + ending, budget="9MiB")
    answer = told(result)
    assert answer["out_of_memory"] and answer["shortages"] == 1, result.stderr
    assert answer["short"] > 0
    line = re.search(r"^  ended: out of memory, short ([\d.]+ [KM]iB)$", result.stderr, re.M)
    assert line, result.stderr
    assert "everything fitted" not in result.stderr
    assert 8 * MIB <= answer["peak_device"] <= 9 * MIB


def test_of_a_program_that_goes_on(command):
    code = SHORT + "try: run_short()\nexcept RuntimeError: pass\ntorch.ones(9) + 1\n"
    result = run(command, code, budget="9MiB")
    assert not told(result)["out_of_memory"]
    assert re.search(r"^  refused   1 op that did not fit, short ", result.stderr, re.M)
    assert "ended:" not in result.stderr and "everything fitted" not in result.stderr
    # Nor did it die of that if it ended for another reason later.
    result = run(command, code + "sys.exit(3)", budget="9MiB")
    assert not told(result)["out_of_memory"] and "ended:" not in result.stderr


def test_statistics_know_it_too(command, tmp_path):
    path = tmp_path / "stats.json"
    run(command, FITS + "last(1)", "--stats", str(path))
    stats = json.loads(path.read_text())
    assert stats["steps"] == 60 and 3 <= stats["stopped_after_step"] <= 6
    assert stats["elapsed_ns"] >= 0.9e9 and not stats["out_of_memory"]
    run(command, SHORT + "run_short()", "--stats", str(path), budget="9MiB")
    stats = json.loads(path.read_text())
    assert stats["out_of_memory"] and stats["shortages"] == 1 and stats["short_bytes"] > 0


def test_ctrl_c_leaves_statistics_behind(command, tmp_path):
    path = tmp_path / "stats.json"
    run(command, FITS + ENDINGS["Ctrl-C"][0], "--stats", str(path))
    assert json.loads(path.read_text())["steps"] == 60


def test_the_summary_of_the_variable_says_it(command):
    environment = clean_environment({}) | {"SPILLWAY_BUDGET": "64MiB", "SPILLWAY_SUMMARY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, timeout=200
    )
    assert re.search(r"^spillway: fits: stopped watching after step \d$", done.stderr, re.M)
    assert "; 60 steps" in done.stderr


def test_a_program_without_an_optimizer_claims_no_steps(command):
    code = (
        "import torch\ntorch.set_num_threads(1)\nx = torch.ones(9)\n"
        "for _ in range(60000): x = x * 1 + 1 - 1\n"
    )
    result = run(command, code)
    answer = told(result)
    assert answer["steps"] == answer["stopped_after_step"] > 3
    assert f"steps     {answer['steps']} while watched, the last took" in result.stderr


def test_several_processes(command, tmp_path):
    code = (
        "import multiprocessing, os\n"
        f"CODE = {FITS!r}\n"
        "def work(): exec(CODE, {})\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    both = [context.Process(target=work) for _ in range(2)]\n"
        "    [one.start() for one in both]; [one.join() for one in both]\n"
    )
    path = tmp_path / "program.py"
    path.write_text("import torch\n" + code)
    words = [command, "run", "--budget", "64MiB", "--json", "--", sys.executable, str(path)]
    result = subprocess.run(
        words, env=clean_environment({}), capture_output=True, text=True, timeout=300
    )
    answer = told(result)
    assert answer["processes"] == 3 and answer["steps"] == 60, result.stderr
    assert "fits: stopped watching in 2 of 3 processes" in result.stderr


def test_the_status_line_of_a_program_that_fits(command, terminal):
    program = [sys.executable, "-c", FITS + "\nwhile True:\n    steps(1); time.sleep(0.01)\n"]
    one = terminal("run", "--budget", "64MiB", "--summary", "off", "--", *program)
    one.patience = 200
    shown = re.compile(r"fits: stopped watching after step \d  step (\d+)")
    seen = set()

    def counts_on():
        found = shown.search(one.screen.text()[-1])
        if found:
            seen.add(int(found[1]))
        return len(seen) >= 3

    one.until(counts_on, "a step count that goes on")
    assert max(seen) > 60
    one.process.send_signal(signal.SIGTERM)
    assert one.finish() == -signal.SIGTERM
