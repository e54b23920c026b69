# SPDX-License-Identifier: Apache-2.0
"""The page itself, in a browser."""

import json
import re

import pytest

pytest.importorskip("plotly", reason="a report is drawn with plotly, which is not installed")
pytest.importorskip("jinja2", reason="a report is drawn with jinja2, which is not installed")

from spillway.report import charts, command, gather, page
from spillway.report.contents import BoundPoint, ParetoPoint, Report

from . import browser, samples


def test_memory_without_and_with_a_plan_has_the_same_axes(files):
    """The step takes 350 ns without the plan and 420 with it."""
    drawn = page.figures(gather.report(files["PLAN"], trace=files["TRACE"]))
    without, planned = (drawn[name].layout for name in ("unmanaged", "planned"))
    assert without.xaxis.range == planned.xaxis.range == (0, 420)
    assert without.xaxis.title == planned.xaxis.title
    assert without.yaxis.range == planned.yaxis.range
    assert without.yaxis.title == planned.yaxis.title


def test_what_is_left_free_of_the_budget_is_drawn(files):
    with open(files["SIMULATION"], "w", encoding="utf-8") as file:
        json.dump({**samples.SIMULATION, "workspace_margin": 95}, file)
    drawn = page.figures(gather.report(files["PLAN"], trace=files["TRACE"]))["planned"]
    heights = {line.name: line.y[0] * 1024 for line in drawn.data if line.fill is None}
    lines = {name: y for name, y in heights.items() if "budget" in name or "workspace," in name}
    assert lines == {"budget 600 B": 600, "less workspace, 505 B": 505}


def test_planners_differ_in_colour_and_mark():
    def looks(count):
        points = [ParetoPoint(f"planner {row}", 100, 100) for row in range(count)]
        return [
            (line.line.color, line.marker.symbol)
            for line in charts.pareto(Report("", [], pareto=points)).data
        ]

    colours = [colour for colour, _ in looks(9)]
    assert len(set(colours)) == 9, "as many planners as there are, and one to come"
    assert len(set(looks(40))) == 40


def test_the_bound_between_two_budgets_is_that_of_the_larger():
    report = Report(
        "", [], pareto=[ParetoPoint("a", size, 100) for size in (100, 200)],
        bound=[BoundPoint(100, 90), BoundPoint(200, 50)],
    )  # fmt: skip
    (bound,) = (line for line in charts.pareto(report).data if line.name == "lower bound")
    assert bound.line.shape == "vh"


def test_one_slow_planner_leaves_the_others_apart():
    points = [ParetoPoint("fast", 100, 100), ParetoPoint("slow", 100, 1900)]
    assert charts.pareto(Report("", [], pareto=points)).layout.yaxis.type == "log"


@pytest.fixture
def drawn_page(files, tmp_path):
    path = tmp_path / "report.html"
    arguments = [files["PLAN"], "--trace", files["TRACE"], "--compare", files["COMPARED"]]
    assert command.main([*arguments, "--run", files["STATISTICS"], "-o", str(path)]) == 0
    return path


def test_the_page_loads_nothing_from_outside(drawn_page):
    text = drawn_page.read_text()
    markup = re.sub(r"<script[^>]*>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", markup)
    assert not re.search(r"<script[^>]+src=", text)


def test_names_of_the_program_are_escaped(drawn_page):
    text = drawn_page.read_text()
    assert "&lt;b&gt;loss&lt;/b&gt;" in text
    assert "<b>loss</b>" not in re.sub(r"<script[^>]*>.*?</script>", "", text, flags=re.DOTALL)


LOOK = """
  const rows = [...document.querySelectorAll("#decision-table tbody tr")];
  const visible = () => rows.filter((row) => !row.hidden).length;
  const sizes = () => [...document.querySelectorAll("#decision-table tbody tr")].map(
    (row) => Number(row.cells[2].dataset.value));
  const before = visible();
  const text = document.getElementById("filter-text");
  text.value = "forward"; text.dispatchEvent(new window.Event("input"));
  const filtered = visible();
  const filteredAway = rows.filter(
    (row) => row.hidden && row.getBoundingClientRect().height).length;
  text.value = ""; text.dispatchEvent(new window.Event("input"));
  const header = document.querySelectorAll("#decision-table th button")[2];
  header.click(); const down = sizes(); header.click(); const up = sizes();
  const scroll = document.getElementById("decision-table").closest(".scroll");
  const cells = rows[0].cells;
  cells[0].textContent = "aten::native_batch_norm_backward";
  cells[4].textContent = cells[5].textContent = "1004 aten::native_batch_norm_backward";
  cells[7].textContent = "not needed for 645 ms, over the end of the step";
  const shown = [...cells].filter((cell) => cell.textContent.trim());
  return {
    hidden: shown.filter((cell) => !cell.getBoundingClientRect().height).length,
    right: Math.max(...shown.map((cell) => cell.getBoundingClientRect().right)),
    labels: [...cells].slice(1).map((cell) => window.getComputedStyle(cell, "::before").content),
    filteredAway: filteredAway,
    cut: scroll.scrollWidth - scroll.clientWidth, reason: cells[7].clientWidth,
    charts: document.querySelectorAll(".js-plotly-plot .main-svg").length > 0
      ? document.querySelectorAll(".js-plotly-plot").length : 0,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    widest: Math.max(...[...document.querySelectorAll(".js-plotly-plot .main-svg")].map(
      (each) => each.getBoundingClientRect().right)),
    before, filtered, down, up,
  };
"""


@pytest.mark.skipif(browser.find() is None, reason="there is no Chromium to open the page with")
@pytest.mark.parametrize("width", [1200, 390], ids=["desk", "phone"])
def test_the_page_works_in_a_browser(drawn_page, width):
    seen = browser.look(drawn_page, width, 1800, LOOK)
    assert seen.console == []
    answers = seen.answers
    assert answers["charts"] == 5  # memory twice, host, streams, Pareto
    assert answers["overflow"] <= 0
    assert answers["widest"] <= width
    assert answers["cut"] <= 0, "a column of decisions is cut off"
    assert answers["right"] <= width
    assert answers["hidden"] == 0, "a decision is not shown whole"
    assert answers["filteredAway"] == 0
    assert answers["reason"] >= 150
    if width == 390:
        assert all(label.strip('"') not in ("", "none") for label in answers["labels"])
    assert answers["before"] > answers["filtered"] >= 1
    assert answers["down"] == sorted(answers["down"], reverse=True)
    assert answers["up"] == sorted(answers["up"])
    assert seen.screenshot.stat().st_size > 10_000


TITLES = """
  const plots = [...document.querySelectorAll(".js-plotly-plot")].filter(
    (plot) => plot.querySelector(".ytitle"));
  const box = (plot, name) => plot.querySelector(name).getBoundingClientRect();
  return {
    longest: Math.max(...plots.map((plot) => plot.querySelectorAll(".legend .traces").length)),
    covered: Math.max(...plots.map(
      (plot) => box(plot, ".xtitle").bottom - box(plot, ".legend").top)),
    clipped: Math.max(...plots.map(
      (plot) => plot.getBoundingClientRect().top - box(plot, ".ytitle").top)),
  };
"""


@pytest.mark.skipif(browser.find() is None, reason="there is no Chromium to open the page with")
def test_a_long_legend_leaves_the_titles_of_the_axes_on_a_phone(files, tmp_path):
    more = [
        {"id": 3 + row, "bytes": 50 << 20, "role": role, "persistent": True}
        for row, role in enumerate(("gradient", "optimizer_state", "input", "unknown"))
    ]
    trace = {**samples.TRACE, "storages": [*samples.TRACE["storages"], *more]}
    plan = {**samples.PLAN, "device_budget": 125 << 20}  # a long word in the legend
    for name, value in (("TRACE", trace), ("PLAN", plan)):
        with open(files[name], "w", encoding="utf-8") as file:
            json.dump(value, file)
    path = tmp_path / "roles.html"
    assert command.main([files["PLAN"], "--trace", files["TRACE"], "-o", str(path)]) == 0
    seen = browser.look(path, 390, 1800, TITLES)
    assert seen.answers["longest"] == 8  # all roles, and the budget
    assert seen.answers["covered"] <= 0, "the legend covers the title of an axis"
    assert seen.answers["clipped"] <= 0, "the title of an axis is cut off"
