# SPDX-License-Identifier: Apache-2.0
"""Draws a report as one HTML page that needs nothing from outside."""

import pathlib

import jinja2
import markupsafe
import plotly.graph_objects as go
import plotly.offline

from spillway.report import charts
from spillway.report.contents import Report
from spillway.report.quantities import size

_FOLDER = pathlib.Path(__file__).parent


def render(report: Report) -> str:
    """The page as text, about 5 MB of which are plotly's script."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["size"] = size
    return environment.get_template("page.html.j2").render(
        report=report,
        charts={
            name: None if figure is None else _html(figure, name)
            for name, figure in figures(report).items()
        },
        comparisons=charts.comparison_rows(report.comparisons),
        plotly_js=markupsafe.Markup(plotly.offline.get_plotlyjs()),
        table_js=markupsafe.Markup((_FOLDER / "table.js").read_text(encoding="utf-8")),
    )


def figures(report: Report) -> dict[str, go.Figure | None]:
    """The charts by name; None where there is nothing to draw."""
    drawn: dict[str, go.Figure | None] = dict.fromkeys(
        ("unmanaged", "planned", "slower_tiers", "streams", "pareto")
    )
    length = _length(report)
    most = max(
        report.budget_bytes or 0,
        *(curve.peak() for curve in (report.unmanaged, report.planned) if curve),
        1,
    )
    if report.unmanaged:
        drawn["unmanaged"] = charts.memory(report.unmanaged, report, most, length)
    if report.planned:
        drawn["planned"] = charts.memory(report.planned, report, most, length)
    if any(curve.peak() for curve in report.slower_tiers.values()):
        drawn["slower_tiers"] = charts.slower_tiers(report, length)
    if report.streams:
        drawn["streams"] = charts.streams(report, length)
    if report.pareto:
        drawn["pareto"] = charts.pareto(report)
    return drawn


def _html(figure: go.Figure, name: str) -> markupsafe.Markup:
    return markupsafe.Markup(
        figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=f"chart-{name}",
            config={"responsive": True, "displaylogo": False, "displayModeBar": False},
        )
    )


def _length(report: Report) -> int:
    ends = [span.end for spans in report.streams.values() for span in spans]
    ends += [curve.times[-1] for curve in (report.planned, report.unmanaged) if curve]
    return max(ends, default=1)
