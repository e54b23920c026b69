# SPDX-License-Identifier: Apache-2.0
"""The search for the largest size and the least memory, and how the figures are shown."""

import dataclasses
import pathlib

import pytest

from benchmarks.paper_tables import __main__, kept, outcome, tables
from benchmarks.paper_tables.__main__ import write_between_markers
from benchmarks.paper_tables.outcome import MemoryOutcome, SizeOutcome, SpeedOutcome
from benchmarks.paper_tables.reach import Chosen, Largest, Limits, Planned, Reach
from benchmarks.paper_tables.rows import MEMORY_ROWS, ROWS, Row, Slowdown, Speed
from spillway import UserError

LIMITS = Limits("m40", 12 << 30, 64 << 30)
ROW = Row("a paper", "vgg", (("depth", 16),), "batch", "batch", "m40", "lru", 100, 50)


@pytest.mark.parametrize("limit", [1, 7, 99, 100, 101, 1234])
def test_the_largest_size_is_found_to_one_in_a_hundred(limit):
    with Reach(kept.Recording("resnet", (("depth", 50),)), LIMITS) as reach:
        found = reach.largest(lambda value: value <= limit, published=100)
    assert limit * 0.99 - 1 <= found.value <= limit
    assert not found.at_least


def test_volumes_grow_in_steps_that_the_network_allows():
    with Reach(kept.Recording("residual_unet3d", (("batch", 1),)), LIMITS) as reach:
        found = reach.largest(lambda value: value <= 300, published=256)
    assert found.value == 288  # the network halves its input four times


def test_where_nothing_fits_there_is_no_largest():
    with Reach(kept.Recording("resnet", (("depth", 50),)), LIMITS) as reach:
        assert reach.largest(lambda value: False, published=100) == Largest(None)


def test_of_sizes_recorded_one_by_one_the_last_is_a_lower_limit():
    recording = kept.Recording("mixture_of_experts", (("batch", 8),))
    largest = max(recording.values)
    with Reach(recording, LIMITS) as reach:
        assert reach.largest(lambda value: value <= 30, 48) == Largest(24)
        assert reach.largest(lambda value: True, 48) == Largest(largest, at_least=True)


def test_sizes_below_the_published_ones_are_marked():
    short = SizeOutcome(ROW, Largest(51), {"lru": Largest(84), "hybrid": Largest(99)})
    line = tables.size_table([short]).splitlines()[-1]
    assert line.endswith("| 50 | 51 | 100 | 84 † | 99 ‡ |")
    much = SizeOutcome(ROW, Largest(51), {"lru": Largest(116), "hybrid": Largest(100)})
    assert tables.size_table([much]).splitlines()[-1].endswith("| 116 † | 100 |")
    enough = SizeOutcome(ROW, Largest(51), {"lru": Largest(85), "hybrid": Largest(100, True)})
    line = tables.size_table([enough]).splitlines()[-1]
    assert line.endswith("| 85 | at least 100 |")


def test_speeds_are_in_the_papers_unit_and_slower_ones_are_marked():
    second = 1_000_000_000
    plans = {"lru": Planned(4 * second, second), "hybrid": Planned(5 * second, second)}
    line = tables.speed_table([SpeedOutcome(ROW, 100, 100, second, plans)]).splitlines()[-1]
    assert line.endswith("| images/s | - | 100 | 25 (4.00x) | 20 (5.00x) ‡ |")
    plans = {"lru": None, "hybrid": Planned(5 * second, second)}
    line = tables.speed_table([SpeedOutcome(ROW, 100, 100, second, plans)]).splitlines()[-1]
    assert line.endswith("| 100 | no plan | 20 (5.00x) |")


def test_speeds_far_from_the_published_ones_are_marked():
    second = 1_000_000_000
    row = dataclasses.replace(ROW, speeds=(Speed(100, None, 30.0),))
    plans = {"lru": Planned(4 * second, second), "hybrid": Planned(2 * second, second)}
    line = tables.speed_table([SpeedOutcome(row, 100, 100, second, plans)]).splitlines()[-1]
    assert line.endswith("| images/s | 30 | 100 | 25 (4.00x) † | 50 (2.00x) |")
    row = dataclasses.replace(ROW, speeds=(Speed(100, None, 27.0),))
    line = tables.speed_table([SpeedOutcome(row, 100, 100, second, plans)]).splitlines()[-1]
    assert line.endswith("| images/s | 27 | 100 | 25 (4.00x) | 50 (2.00x) |")
    row = dataclasses.replace(ROW, speeds=(Speed(100, 40.0, 27.0),))
    line = tables.speed_table([SpeedOutcome(row, 100, 100, second, plans)]).splitlines()[-1]
    assert "| images/s | 27, 40 without | 100 |" in line


@pytest.mark.parametrize(
    ("slowdown", "ns", "shown"),
    [
        (Slowdown(0.10, at_most=True), 1_000_000_000, "| <1.11x | 100 | 100 (1.00x) |"),
        (Slowdown(0.10, at_most=True), 1_300_000_000, "| <1.11x | 100 | 76.9 (1.30x) † |"),
        (Slowdown(0.20), 1_000_000_000, "| 1.25x | 100 | 100 (1.00x) † |"),
        (Slowdown(0.20), 1_250_000_000, "| 1.25x | 100 | 80 (1.25x) |"),
    ],
)
def test_a_published_slowdown_is_shown_and_compared(slowdown, ns, shown):
    row = dataclasses.replace(ROW, slowdown=slowdown)
    plans = {"lru": Planned(ns, 1_000_000_000), "hybrid": Planned(1_000_000_000, 1_000_000_000)}
    found = SpeedOutcome(row, 100, 100, 1_000_000_000, plans)
    assert shown in tables.speed_table([found]).splitlines()[-1]


def test_the_published_page_has_every_row_and_hybrid_falls_short_in_none():
    page = (pathlib.Path(__file__).parents[2] / "docs/paper-tables.md").read_text(encoding="utf-8")
    shown = {
        name: page.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
        for name in ("sizes", "speeds", "memory")
    }
    for row in ROWS:
        assert f"| {row.title} | {row.unit} |" in shown["sizes"], row
        for value in row.speed_values:
            assert f"| {row.title} | {row.unit} {value:,}" in shown["speeds"], row
    for row in MEMORY_ROWS:
        assert f"| {row.title}, " in shown["memory"], row
    for name, text in shown.items():
        assert tables.SHORT not in text, name


@pytest.mark.parametrize(("reached", "status"), [(99, 1), (100, 0)])
def test_a_size_that_hybrid_does_not_reach_is_the_exit_status(reached, status, monkeypatch, capsys):
    found = SizeOutcome(ROW, Largest(51), {"lru": Largest(100), "hybrid": Largest(reached)})
    nothing = {"sizes": [found], "speeds": [], "memory": []}
    monkeypatch.setattr(__main__, "sections", lambda papers: nothing)
    monkeypatch.setattr("sys.argv", ["paper_tables"])
    assert __main__.main() == status
    assert ("‡ |" in capsys.readouterr().out) == bool(status)


def test_the_papers_options_go_to_the_papers_planner_alone():
    sizes = {row.network: outcome.planners_of(row) for row in ROWS if row.paper == "TensorFlowMem"}
    theirs, ours = sizes["mixture_of_experts"]
    assert theirs == Chosen("partitioned", (("partition-size", "200"),))
    assert sizes["deep_speech"][0].flags == ["--partition-size", "5"]
    assert (ours.flags, sizes["resnet_layers"][0].flags) == ([], [])
    assert [each.flags for each in outcome.planners_of(MEMORY_ROWS[0])] == [[], []]


def test_the_command_takes_the_questions_of_every_row(monkeypatch, command):
    monkeypatch.setenv("SPILLWAY_COMMAND", command)
    recording = kept.Recording("alexnet", ())
    asked = {each for row in (*ROWS, *MEMORY_ROWS) for each in outcome.planners_of(row)}
    with Reach(recording, LIMITS) as reached:
        for planner in asked:
            assert reached.fits(planner, 8), planner
            assert reached.plan(planner, 8).slowdown >= 1


def test_where_less_memory_is_a_plan_too_it_is_found(monkeypatch, command):
    monkeypatch.setenv("SPILLWAY_COMMAND", command)
    with Reach(kept.Recording("alexnet", ()), LIMITS) as reached:
        peak = 2 << 30
        assert 0 < reached.smallest_budget(Chosen("lru"), 32, peak) < peak


def test_steps_may_be_counted_instead_of_samples():
    row = next(row for row in ROWS if row.network == "deep_speech")
    assert row.speed_unit == "s/step"
    assert row.speed(800, 12_000_000_000) == 12.0
    assert row.speed_values == [100, 200, 400, 800]


def test_memory_is_in_megabytes():
    row = MEMORY_ROWS[0]
    found = MemoryOutcome(row, 5815 << 20, {row.planner: 2660 << 20, "hybrid": 1 << 30})
    line = tables.memory_table([found]).splitlines()[-1]
    assert line.endswith("| 5,815 MB | 5,815 MB | 2,660 MB | 2,660 MB | 1,024 MB |")
    found = MemoryOutcome(row, 5815 << 20, {row.planner: 854 << 20, "hybrid": 1 << 30})
    line = tables.memory_table([found]).splitlines()[-1]
    assert line.endswith("| 2,660 MB | 854 MB † | 1,024 MB |")


def test_tables_go_between_their_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- sizes: begin -->\nold\n<!-- sizes: end -->\nb\n")
    write_between_markers(page, "sizes", "| new \\1 |")
    assert page.read_text() == "a\n<!-- sizes: begin -->\n| new \\1 |\n<!-- sizes: end -->\nb\n"
    with pytest.raises(UserError):
        write_between_markers(page, "speeds", "x")
