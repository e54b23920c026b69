# SPDX-License-Identifier: Apache-2.0
"""The planning commands as a person runs them: exit statuses, streams, files, JSON."""

import json
import os
import re
import signal
import threading
import time

import pytest

from tests.report import trace_events

MIB = 2**20


def recorded_step(layers):
    """Forward and backward of a chain: every layer keeps 64 MiB for the way back."""
    storages = [{"id": 0, "bytes": MIB, "role": "parameter", "persistent": True, "name": "weight"}]
    ops = []
    for layer in range(layers):
        kept = len(storages)
        storages.append({"id": kept, "bytes": 64 * MIB, "role": "activation"})
        ops.append(
            {
                "name": f"forward{layer}",
                "ns": 10_000_000,
                "creates": [kept],
                "reads": [0],
                "writes": [kept],
            }
        )
    for layer in reversed(range(layers)):
        kept = layer + 1
        ops.append(
            {"name": f"backward{layer}", "ns": 20_000_000, "reads": [0, kept], "frees": [kept]}
        )
    return {"spillway_trace": 2, "storages": storages, "ops": ops}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "step.json"
    path.write_text(json.dumps(recorded_step(8)), encoding="utf-8")
    return str(path)


def test_a_plan_is_made_written_and_simulated(spillway, trace, tmp_path):
    plan = str(tmp_path / "plan.json")
    words = ("--budget", "300MiB", "--machine", "v100-pcie", "--planner", "lru")
    made = spillway("plan", trace, *words, "-o", plan)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("planner       lru\n")
    assert made.stderr == ""
    planned = json.loads(spillway("plan", trace, *words, "--json").stdout)
    simulated = json.loads(spillway("simulate", trace, "--plan", plan, "--json").stdout)
    assert simulated["step_ns"] == planned["step_ns"] >= planned["bound_ns"]
    assert simulated["peak"]["device"]["bytes"] <= 300 * MIB


def step_ns(spillway, *words):
    return json.loads(spillway(*words, "--json").stdout)["step_ns"]


def test_a_plan_takes_as_long_later_as_when_it_was_made(spillway, trace, tmp_path):
    plan = str(tmp_path / "plan.json")
    words = ("plan", trace, "--budget", "300MiB", "--machine", "v100-pcie", "--planner", "lru")
    planned = step_ns(spillway, *words, "--estimate-times")
    assert planned != step_ns(spillway, *words), "estimated durations are others"
    assert spillway(*words, "--estimate-times", "-o", plan).returncode == 0
    assert step_ns(spillway, "simulate", trace, "--plan", plan) == planned
    explained = json.loads(spillway("explain", plan, "--json").stdout)
    assert explained["durations"] == "estimated"


def test_a_step_of_a_processor_is_estimated_for_a_card(spillway, trace, tmp_path):
    """Ten milliseconds an op on the processor, next to nothing on the card."""
    there = {**recorded_step(8), "machine": "Fast 9000, 8 processors"}
    path = tmp_path / "there.json"
    path.write_text(json.dumps(there), encoding="utf-8")
    card = ("--machine", "v100-pcie")
    estimated = step_ns(spillway, "simulate", trace, *card, "--estimate-times")
    assert step_ns(spillway, "simulate", str(path), *card) == estimated < 10_000_000
    assert step_ns(spillway, "simulate", str(path), *card, "--recorded-times") == 240_000_000
    told = spillway("plan", str(path), *card, "--budget", "300MiB", "--planner", "lru").stdout
    assert "\nrecorded on   Fast 9000, 8 processors\n" in told
    machines = json.loads(
        spillway("what-if", str(path), "--machines", "--planner", "lru", "--json").stdout
    )
    assert {row["durations"] for row in machines} == {"estimated"}


def test_a_plan_finds_its_trace_where_both_were_moved(spillway, trace, tmp_path):
    plan = tmp_path / "plan.json"
    words = ("--budget", "300MiB", "--machine", "v100-pcie", "--planner", "lru")
    assert spillway("plan", trace, *words, "-o", str(plan)).returncode == 0
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in (plan, tmp_path / "step.json"):
        path.rename(moved / path.name)
    explained = spillway("explain", str(moved / "plan.json"), "--top", "1")
    assert explained.returncode == 0, explained.stderr
    assert "evict to host" in explained.stdout
    assert "if left alone:" in explained.stdout


def test_that_nothing_fits_is_status_1_with_need_have_and_short(spillway, trace):
    result = spillway("plan", trace, "--budget", "60MiB", "--planner", "lru")
    assert result.returncode == 1
    assert "No plan fits the budgets." in result.stdout
    assert "need " in result.stdout and "have 60 MiB" in result.stdout
    assert "short " in result.stdout


def test_of_several_that_nothing_fits_is_status_1_too(spillway, trace, tmp_path):
    lru = ("--planners", "lru")
    assert spillway("compare", trace, "--budget", "50MiB,60MiB", *lru).returncode == 1
    assert spillway("compare", trace, "--budget", "60MiB,300MiB", *lru).returncode == 0
    large = recorded_step(8)
    for storage in large["storages"]:
        storage["bytes"] *= 2**20
    path = tmp_path / "large.json"
    path.write_text(json.dumps(large), encoding="utf-8")
    for words in (("--machines",), (str(path),)):
        result = spillway("what-if", str(path), *words, "--planner", "lru")
        assert (result.returncode, result.stderr) == (1, "")
        assert "does not fit" in result.stdout
    assert spillway("what-if", str(path), trace, "--planner", "lru").returncode == 0


def test_a_plan_of_another_trace_is_a_mistake(spillway, trace, tmp_path):
    plan = str(tmp_path / "plan.json")
    words = ("--budget", "300MiB", "--machine", "v100-pcie", "--planner", "lru")
    assert spillway("plan", trace, *words, "-o", plan).returncode == 0
    other = tmp_path / "other.json"
    other.write_text(json.dumps(recorded_step(7)), encoding="utf-8")
    result = spillway("simulate", str(other), "--plan", plan)
    assert result.returncode == 2
    assert "made for another trace" in result.stderr


def test_mistakes_are_status_2(spillway, trace):
    for words in (
        ("plan", trace, "--planner", "nobody"),
        ("plan", trace, "--machine", "abacus"),
        ("plan", trace, "--budget", "much"),
        ("explain", trace),
        ("compare",),
    ):
        result = spillway(*words)
        assert result.returncode == 2, words
        assert result.stderr.startswith("spillway: "), words


def test_explain_refuses_what_the_trace_does_not_have(spillway, trace, tmp_path):
    plan = str(tmp_path / "plan.json")
    words = ("--budget", "300MiB", "--machine", "v100-pcie", "--planner", "lru")
    assert spillway("plan", trace, *words, "-o", plan).returncode == 0
    for flag, word, told in (
        ("--storage", "wieght", 'no storage "wieght"'),
        ("--storage", "9", 'no storage "9"'),
        ("--op", "17", "no op 17: the step has 16"),
    ):
        result = spillway("explain", plan, flag, word)
        assert (result.returncode, result.stdout) == (2, "")
        assert told in result.stderr
    stays = spillway("explain", plan, "--storage", "weight").stdout
    assert "\nstorage 0: 1 MiB, parameter, weight\n  stays: " in stays


def test_a_step_without_a_plan_has_no_limit_to_show(spillway, trace):
    result = spillway("simulate", trace, "--machine", "v100-pcie")
    assert result.returncode == 0
    assert "device        peak 513 MiB, op " in result.stdout


def test_planners_are_compared_as_json(spillway, trace):
    result = spillway(
        "compare", trace, "--budget", "80%,50%", "--planners", "lru,unified-memory",
        "--machine", "v100-pcie", "--json",
    )  # fmt: skip
    answer = json.loads(result.stdout)
    assert {point["planner"] for point in answer["points"]} == {"lru", "unified-memory"}
    steps = {(p["planner"], p["budget_bytes"]): p.get("step_ns") for p in answer["points"]}
    for budget in {budget for _, budget in steps}:
        assert steps["lru", budget] <= steps["unified-memory", budget]


def test_the_timeline_is_a_file_that_perfetto_opens(spillway, trace, tmp_path):
    plan, events = str(tmp_path / "plan.json"), tmp_path / "events.json"
    words = ("--budget", "70%", "--machine", "v100-pcie")
    assert spillway("plan", trace, *words, "-o", plan).returncode == 0
    result = spillway("simulate", trace, "--plan", plan, "--perfetto", str(events))
    assert result.returncode == 0, result.stderr
    assert trace_events.flaws(events.read_text()) == []
    phases = {event["ph"] for event in json.loads(events.read_text())["traceEvents"]}
    assert phases == {"X", "M", "C"}


@pytest.fixture
def dense_trace(tmp_path):
    """So little computing for so much to copy that a search for a better plan does not end soon."""
    step = recorded_step(100)
    for row, op in enumerate(step["ops"]):
        op["ns"] = 100_000 * (1 + row * 7919 % 13)
    for row, storage in enumerate(step["storages"][1:]):
        storage["bytes"] = MIB * (8 + row * 31 % 120)
    path = tmp_path / "dense.json"
    path.write_text(json.dumps(step), encoding="utf-8")
    return str(path)


# Five searches of 0.4 s, longer where other programs take the processors.
SEARCHES = (
    "--planners", "hybrid", "--machine", "v100-pcie", "--time-limit", "400ms",
    "--budget", "40%,35%,30%,25%,20%",
)  # fmt: skip


def erased(one, first_row):
    """Whether the command ended well and left its own output alone on the screen."""
    assert one.finish() == 0
    assert not any("planning" in row for row in one.screen.history())
    assert one.screen.text()[0] == first_row


def test_a_long_plan_says_on_a_terminal_how_far_it_is(terminal, dense_trace):
    one = terminal("plan", dense_trace, "--machine", "v100-pcie", "--budget", "40%", rows=30)
    one.until_text("planning: hybrid, ")
    assert re.search(r"planning: hybrid, [a-z ]+, \d+ %$", one.screen.text()[0])
    erased(one, "planner       hybrid")


def test_a_comparison_says_which_plan_it_is_at(terminal, dense_trace):
    one = terminal("compare", dense_trace, *SEARCHES, rows=30, columns=60)
    one.until_text(" of 5: hybrid")
    assert re.match(r"planning [1-5] of 5: hybrid", one.screen.text()[0])
    erased(one, "machine       v100-pcie")


def test_ctrl_c_erases_the_line_and_ends_the_command(terminal, dense_trace):
    one = terminal("compare", dense_trace, *SEARCHES, rows=30, columns=60)
    one.until_text(" of 5: hybrid")
    one.type("\x03")
    assert one.finish() == -signal.SIGINT
    assert not any("planning" in row for row in one.screen.history())


def test_the_line_is_cut_where_the_terminal_is_narrow(terminal, dense_trace):
    one = terminal("compare", dense_trace, *SEARCHES, rows=90, columns=20)
    one.until_text(" of 5: hy")
    assert one.screen.text()[1] == "", "a line that wraps is not erased"
    assert one.finish() == 0
    assert not any("planning" in row for row in one.screen.history())


def test_no_progress_where_it_is_not_wanted(terminal, spillway, dense_trace, tmp_path):
    begin = time.monotonic()
    piped = spillway("compare", dense_trace, *SEARCHES)
    assert time.monotonic() - begin > 1, "too short to show anything"
    assert (piped.returncode, piped.stderr) == (0, "")
    with open(tmp_path / "errors", "wb") as errors:
        split = terminal("compare", dense_trace, *SEARCHES, stderr=errors, rows=30)
        assert split.finish() == 0
    assert (tmp_path / "errors").read_bytes() == b""
    assert "planning" not in split.raw
    dumb = terminal("compare", dense_trace, *SEARCHES, rows=30, TERM="dumb")
    assert dumb.finish() == 0
    assert "planning" not in dumb.raw


@pytest.fixture
def slow_file(tmp_path):
    """A trace that comes when `give` is called; until then whoever reads it waits."""
    path = tmp_path / "slow.json"
    os.mkfifo(path)

    def give():
        path.write_text(json.dumps(recorded_step(8)), encoding="utf-8")

    return str(path), give


@pytest.mark.parametrize(
    "words, first_row",
    [
        (("trace", "stats"), "ops                   16 in 240 ms"),
        (("simulate",), "planner       none"),
        (
            ("compare", "--planners", "lru"),
            "machine       h200, as none was named: see --machine",
        ),
    ],
)
def test_that_a_trace_is_being_read_is_said(terminal, slow_file, words, first_row):
    path, give = slow_file
    one = terminal(*words, path, rows=30)
    one.until_text("reading: slow.json")
    give()
    assert one.finish() == 0
    assert not any("reading" in row for row in one.screen.history())
    assert one.screen.text()[0] == first_row


def test_ctrl_c_while_reading_erases_the_line(terminal, slow_file):
    one = terminal("trace", "show", slow_file[0])
    one.until_text("reading: slow.json")
    one.type("\x03")
    assert one.finish() == -signal.SIGINT
    assert not any("reading" in row for row in one.screen.history())


def test_reading_says_nothing_where_there_is_no_terminal(spillway, slow_file):
    path, give = slow_file
    waiting = threading.Timer(1, give)
    waiting.start()
    result = spillway("trace", "stats", path)
    waiting.join()
    assert (result.returncode, result.stderr) == (0, "")
