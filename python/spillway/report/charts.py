# SPDX-License-Identifier: Apache-2.0
"""The charts of a report, as plotly figures."""

import plotly.graph_objects as go

from spillway.report.contents import ROLES, Comparison, MemoryCurve, Report, Span
from spillway.report.quantities import duration, size, size_scale, time_scale
from spillway.report.thinning import thin_curve, thin_spans

# Distinguishable with every common colour blindness: Okabe and Ito, 2008.
_ROLE_COLOURS = {
    "parameter": "#0072B2",
    "optimizer_state": "#56B4E9",
    "gradient": "#E69F00",
    "input": "#CC79A7",
    "activation": "#009E73",
    "workspace": "#F0E442",
    "unknown": "#9A9A9A",
}
_KIND_COLOURS = {"op": "#0072B2", "recompute": "#E69F00", "stall": "#D55E00", "copy": "#009E73"}
_KIND_WORDS = {"op": "op", "recompute": "recomputed op", "stall": "stall", "copy": "copy"}
# Each planner has a colour and a mark, so that lines differ without colours too.
_PLANNER_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C564B",
    "#6A3D9A", "#B3B300",
)  # fmt: skip
_PLANNER_MARKS = (
    "circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "pentagon",
    "star-triangle-up", "hexagram", "hourglass",
)  # fmt: skip
_INK = "#1d2733"
_GRID = "#e6e9ee"


# At the bottom of the chart, however many rows it takes: below the axis it would cover its title.
_LEGEND = {
    "orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "entrywidth": 0,
}  # fmt: skip


def _layout(height: int, **more) -> go.Layout:
    return go.Layout(
        height=height,
        margin={"l": 58, "r": 14, "t": 12, "b": 44},
        font={"family": "system-ui, sans-serif", "size": 13, "color": _INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="closest",
        legend=_LEGEND,
        **more,
    )


def _axis(title: str, **more) -> dict:
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": _GRID,
        "zerolinecolor": _GRID,
        "automargin": True,
        **more,
    }


def memory(curve: MemoryCurve, report: Report, most_bytes: float, length: int) -> go.Figure:
    """The device's memory by role, with the budget as a line. All charts of a report share axes."""
    curve = thin_curve(curve)
    unit, scale = size_scale(most_bytes)
    time_unit, time_divisor = ("ops", 1.0) if report.counts_ops else time_scale(length)
    times = [time / time_divisor for time in curve.times]
    figure = go.Figure(layout=_layout(330))
    for role in ROLES:
        values = curve.bytes.get(role)
        if not values or not any(values):
            continue
        figure.add_scatter(
            x=times,
            y=[value / scale for value in values],
            name=role.replace("_", " "),
            stackgroup="memory",
            mode="lines",
            line={"width": 0, "shape": "hv"},
            fillcolor=_ROLE_COLOURS[role],
            hovertemplate=f"%{{y:.3g}} {unit}",
        )
    margin = report.basis.margin_bytes
    for name, height, dash in (
        ("budget", report.budget_bytes, "dash"),
        ("less workspace,", report.budget_bytes - margin if margin else None, "dot"),
    ):
        if height is None:
            continue
        figure.add_scatter(
            x=[0, length / time_divisor],
            y=[height / scale] * 2,
            name=f"{name} {size(height)}",
            mode="lines",
            line={"color": "#C0001A", "width": 2, "dash": dash},
            hoverinfo="skip",
        )
    of_time = "ops" if report.counts_ops else f"time in the step, {time_unit}"
    figure.update_layout(
        xaxis=_axis(of_time, range=[0, length / time_divisor]),
        yaxis=_axis(f"memory, {unit}", range=[0, 1.06 * most_bytes / scale]),
        hovermode="x unified",
    )
    return figure


def slower_tiers(report: Report, length: int) -> go.Figure:
    """Draws the bytes on host and disk."""
    curves = {tier: thin_curve(curve) for tier, curve in report.slower_tiers.items()}
    unit, scale = size_scale(max((curve.peak() for curve in curves.values()), default=1))
    time_unit, time_divisor = time_scale(length)
    figure = go.Figure(layout=_layout(220))
    for (tier, curve), colour in zip(curves.items(), ("#56B4E9", "#8C564B")):
        figure.add_scatter(
            x=[time / time_divisor for time in curve.times],
            y=[value / scale for value in curve.totals()],
            name=tier,
            mode="lines",
            line={"shape": "hv", "color": colour, "width": 2},
            hovertemplate=f"%{{y:.3g}} {unit}",
        )
    figure.update_layout(
        xaxis=_axis(f"time in the step, {time_unit}", range=[0, length / time_divisor]),
        yaxis=_axis(f"held there, {unit}", rangemode="tozero"),
        showlegend=True,
        hovermode="x unified",
    )
    return figure


def streams(report: Report, length: int) -> go.Figure:
    """Every stream a lane, every op, stall and copy a bar."""
    time_unit, time_divisor = time_scale(length)
    lanes = list(report.streams)
    figure = go.Figure(layout=_layout(110 + 46 * len(lanes), barmode="overlay", bargap=0.35))
    by_kind: dict[str, list[tuple[str, Span]]] = {}
    for lane, spans in report.streams.items():
        kinds: dict[str, list[Span]] = {}
        for span in spans:
            kinds.setdefault(span.kind, []).append(span)
        for kind, same in kinds.items():
            by_kind.setdefault(kind, []).extend((lane, span) for span in thin_spans(same, length))
    for kind in ("op", "recompute", "copy", "stall"):
        bars = by_kind.get(kind)
        if not bars:
            continue
        figure.add_bar(
            orientation="h",
            y=[lane for lane, _ in bars],
            base=[span.begin / time_divisor for _, span in bars],
            x=[(span.end - span.begin) / time_divisor for _, span in bars],
            name=_KIND_WORDS[kind],
            marker={"color": _KIND_COLOURS[kind], "line": {"width": 0}},
            text=[f"{span.label}: {duration(span.end - span.begin)}" for _, span in bars],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_layout(
        xaxis=_axis(f"time in the step, {time_unit}", range=[0, length / time_divisor]),
        yaxis=_axis("", categoryorder="array", categoryarray=lanes[::-1], fixedrange=True),
        showlegend=True,
    )
    return figure


def pareto(report: Report) -> go.Figure:
    """Step time over budget, a line for each planner, and the bound that none can pass."""
    unit, scale = size_scale(max((p.budget_bytes for p in report.pareto), default=1))
    time_unit, time_divisor = time_scale(max((p.step_ns for p in report.pareto), default=1))
    figure = go.Figure(layout=_layout(380))
    names = list(dict.fromkeys(point.planner for point in report.pareto))
    for row, name in enumerate(names):
        points = sorted(
            (p for p in report.pareto if p.planner == name), key=lambda each: each.budget_bytes
        )
        figure.add_scatter(
            x=[p.budget_bytes / scale for p in points],
            y=[p.step_ns / time_divisor for p in points],
            name=name,
            mode="lines+markers",
            line={
                "color": _PLANNER_COLOURS[row % len(_PLANNER_COLOURS)],
                "width": 3 if name == "hybrid" else 1.5,
            },
            marker={"size": 9, "symbol": _PLANNER_MARKS[row % len(_PLANNER_MARKS)]},
            hovertemplate=f"{name}: %{{y:.4g}} {time_unit} with %{{x:.3g}} {unit}<extra></extra>",
        )
    if report.bound:
        bound = sorted(report.bound, key=lambda each: each.budget_bytes)
        figure.add_scatter(
            x=[p.budget_bytes / scale for p in bound],
            y=[p.step_ns / time_divisor for p in bound],
            name="lower bound",
            mode="lines",
            # Between two budgets no plan is faster than the bound of the larger one.
            line={"color": "#555", "width": 2, "dash": "dot", "shape": "vh"},
            hovertemplate=f"no plan is faster: %{{y:.4g}} {time_unit}<extra></extra>",
        )
    if report.budget_bytes is not None:
        figure.add_vline(x=report.budget_bytes / scale, line_dash="dash", line_color="#C0001A")
    if own := report.own_point:
        figure.add_scatter(
            x=[own.budget_bytes / scale],
            y=[own.step_ns / time_divisor],
            name=own.planner,
            mode="markers",
            marker={"size": 15, "symbol": "star", "color": "#C0001A"},
            hovertemplate=f"{own.planner}: %{{y:.4g}} {time_unit} with %{{x:.3g}} {unit}"
            "<extra></extra>",
        )
    figure.update_layout(
        xaxis=_axis(f"budget of the device, {unit}"),
        yaxis=_axis(f"step time, {time_unit}", type=_step_axis(report)),
    )
    return figure


def _step_axis(report: Report) -> str:
    times = [point.step_ns for point in report.pareto]
    return "log" if times and max(times) > 4 * max(min(times), 1) else "linear"


def comparison_rows(comparisons: list[Comparison]) -> list[dict[str, str]]:
    """Predicted beside measured, as texts."""

    def word(value: float, unit: str) -> str:
        if unit == "bytes":
            return size(value)
        return duration(value) if unit == "ns" else f"{value:,.0f}"

    rows = []
    for each in comparisons:
        error = "-"
        if each.compares and each.measured:
            error = f"{100 * (each.predicted - each.measured) / each.measured:+.1f} %"
        rows.append(
            {
                "what": each.what,
                "predicted": word(each.predicted, each.unit),
                "measured": word(each.measured, each.unit),
                "error": error,
            }
        )
    return rows
