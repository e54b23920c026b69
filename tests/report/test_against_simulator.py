# SPDX-License-Identifier: Apache-2.0
"""The report of a real plan agrees with the simulator."""

import json
import pathlib
import subprocess

import pytest

from spillway.report import gather
from tests.cli.conftest import find_command

pytestmark = pytest.mark.skipif(find_command() is None, reason="there is no command to ask")
pytest.importorskip("zstandard", reason="the recordings are compressed")

RECORDINGS = (
    pathlib.Path(__file__).parent.parent.parent / "benchmarks" / "paper_tables" / "recordings"
)
STEPS = ("lstm_language_model-layers1-batch8", "resnet-depth50-batch8")
BUDGETS = ("35%", "60%", "90%")
PLANNERS = (
    "hybrid", "swap-critical-path", "lms", "partitioned", "superneurons", "chain-recompute",
    "lru", "unified-memory",
)  # fmt: skip
LINKS = ("device-to-host", "host-to-device")
HOST_ALONE = ("swap-critical-path", "lms", "partitioned")  # planners that know no disk
# With a host; with a host too small for what leaves, before a disk; with a disk alone.
MACHINES = {
    "host": ("--machine", "titan-x-maxwell"),
    "disk": ("--machine", "h200", "--host", "60MiB", "--disk", "64GiB"),
    "no-host": ("--machine", "host-64gb"),
}
CASES = [
    (planner, machine)
    for planner in PLANNERS
    for machine in MACHINES
    if machine == "host" or planner not in HOST_ALONE
]


@pytest.fixture(autouse=True)
def the_command(monkeypatch):
    monkeypatch.setenv("SPILLWAY_COMMAND", find_command())


def ask(*words):
    done = subprocess.run(
        [find_command(), *words, "--json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def plans(planner, machine, folder):
    """Trace, plan and simulation of all that fits."""
    plan = str(folder / "plan.json")
    search = ("--time-limit", "50ms") if planner == "hybrid" else ()
    for step in STEPS:
        trace = str(RECORDINGS / f"{step}.json.zst")
        for budget in BUDGETS:
            words = ("--planner", planner, "--budget", budget, "--workspace-margin", "0")
            if ask("plan", trace, *words, *search, *machine, "-o", plan)["feasible"]:
                yield trace, plan, ask("simulate", trace, "--plan", plan)


@pytest.mark.parametrize(("planner", "machine"), CASES)
def test_a_report_agrees_with_the_simulator(planner, machine, tmp_path):
    compared = 0
    for trace, plan, simulated in plans(planner, MACHINES[machine], tmp_path):
        report = gather.report(plan, trace=trace)
        peak = simulated["peak"]["device"]["bytes"]
        assert report.planned.peak() == peak <= report.budget_bytes
        assert min(min(values) for values in report.planned.bytes.values()) >= 0
        assert report.step_ns == simulated["step_ns"] == report.planned.times[-1]
        assert report.decisions_left_out == 0
        links = {name: link["bytes"] for name, link in simulated["links"].items()}
        disk_is_next = machine == "no-host"
        out, back = ("host-to-disk", "disk-to-host") if disk_is_next else LINKS
        moved = links[out] + links[back]
        assert sum(row.moved_bytes for row in report.decisions) == report.moved_bytes == moved
        assert dict(report.facts)["what binds"] == simulated["bound"]["binds"]
        remade = [row for row in report.decisions if "recompute" in row.decision]
        assert bool(remade) == (simulated["recomputations"] > 0)
        compared += 1
    assert compared, "no plan fits"
