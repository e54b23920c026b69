# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow program is recorded, planned, run and reported on, by the commands alone."""

import json
import re
import sys

import pytest

from spillway.report.quantities import duration, size
from tests.tensorflow.command import answer, spillway
from tests.tensorflow.runner import PROGRAMS


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """The folder of a convolutional network's step, plan, run and report."""
    folder = tmp_path_factory.mktemp("reported")
    step, here, plan, run, page, events = (
        folder / name
        for name in ("step.json", "here.json", "plan.json", "run.json", "run.html", "events.json")
    )
    program = (sys.executable, PROGRAMS / "train.py", "cnn", folder / "result.npz")
    recorded = spillway("record", "-o", step, "--", *program)
    assert recorded.returncode == 0, recorded.stderr
    assert spillway("doctor", "--save", here).returncode == 0
    budget = answer("trace", "stats", step)["step_peak"] * 7 // 10
    answer("plan", step, "--machine", here, "--budget", budget, "-o", plan)
    done = spillway("run", "--budget", budget, "--stats", run, "--", *program)
    assert done.returncode == 0, done.stderr
    (folder / "summary").write_text(done.stderr)
    answer("report", plan, "--trace", step, "--run", run, "-o", page, "--perfetto", events)
    return folder


def statistics_of(folder):
    return json.loads((folder / "run.json").read_text())


def text_of(page):
    return re.sub(r"(?s)<(script|style).*?</\1>|<[^>]+>", " ", page.read_text(encoding="utf-8"))


def test_the_page_shows_the_figures_of_the_run_beside_those_of_the_plan(reported):
    text = text_of(reported / "run.html")
    statistics = statistics_of(reported)
    assert statistics["last_step_moved_bytes"] > 0
    for what, measured in (
        ("step time", duration(statistics["last_step_ns"])),
        ("peak on the device", size(statistics["peak_live_bytes"])),
        ("moved in a step", size(statistics["last_step_moved_bytes"])),
    ):
        row = re.escape(measured).replace(r"\ ", r"\s+")
        assert re.search(rf"{what}\s+[\d.]+ \w+\s+{row}\s+[+-][\d.]+ %", text), what
    assert "do not compare" not in text
    assert "conv2d" in text


def test_the_events_are_those_of_the_layers(reported):
    events = json.loads((reported / "events.json").read_text())["traceEvents"]
    assert any("conv2d" in event["name"] for event in events)


def test_statistics_alone_are_drawn_too(reported, tmp_path):
    page = tmp_path / "run.html"
    answer("report", reported / "run.json", "--trace", reported / "step.json", "-o", page)
    text = text_of(page)
    assert re.search(rf"{statistics_of(reported)['steps']}\s+steps", text)
    assert "moved in the last step" in text


def test_the_largest_movers_are_nodes_of_layers(reported):
    """Those of the step that was recorded, in the statistics as in the summary."""
    statistics = statistics_of(reported)
    movers = statistics["top_movers"]
    assert len(movers) == 5
    moved = [mover["moved_bytes"] for mover in movers]
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] > 0
    assert sum(moved) <= statistics["evicted_bytes"] + statistics["fetched_bytes"]
    storages = json.loads((reported / "step.json").read_text())["storages"]
    known = {storage.get("name") for storage in storages}
    assert all(mover["name"].rsplit(" ", 2)[0] in known for mover in movers)
    summary = (reported / "summary").read_text()
    shown = summary[summary.index("  largest movers (out and in)\n") :].splitlines()[1:]
    assert [line.split(maxsplit=2)[2] for line in shown] == [mover["name"] for mover in movers]
