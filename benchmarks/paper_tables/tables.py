# SPDX-License-Identifier: Apache-2.0
"""The figures as Markdown tables, and what they amount to."""

from collections.abc import Sequence

from .outcome import HYBRID, MemoryOutcome, SizeOutcome, SpeedOutcome
from .reach import Largest, Planned
from .rows import MB, MemoryRow, Row, Speed

#: How far our rendition may be from the published figure without a word in the page.
TOLERANCE = 0.15
#: Marks what hybrid must not do: stay below what was published, or take longer than the paper's
#: planner.
SHORT = "‡"


def size_table(outcomes: Sequence[SizeOutcome]) -> str:
    """Largest sizes."""
    rows = [
        (
            _paper(each.row),
            each.row.title,
            each.row.unit,
            _count(each.row.published_base),
            _largest(each.without),
            _count(each.row.published),
            _largest(each.largest[each.row.planner]) + _mark(size_is_near(each)),
            _largest(each.largest[HYBRID]) + _short(hybrid_reaches(each)),
        )
        for each in outcomes
    ]
    head = (
        "paper", "network", "grows", "without, paper", "without, here", "with, paper",
        "with, its planner here", "with, `hybrid`",
    )  # fmt: skip
    return _table(head, rows)


def speed_table(outcomes: Sequence[SpeedOutcome]) -> str:
    """Speeds at the published sizes."""
    rows = []
    for each in outcomes:
        row = each.row
        published = _published_at(each)
        rows.append(
            (
                _paper(row),
                row.title,
                f"{row.unit} {each.value:,}" + (f" ({each.at:,})" if each.at != each.value else ""),
                row.speed_unit,
                _published_speed(row, published),
                _figure(row.speed(each.at, each.without_ns)),
                _speed(row, each, each.planned[row.planner]) + _mark(speed_is_near(each)),
                _speed(row, each, each.planned[HYBRID]) + _short(hybrid_keeps_up(each)),
            )
        )
    head = (
        "paper", "network", "size", "unit", "published", "no limit, here",
        "its planner here", "`hybrid`",
    )  # fmt: skip
    return _table(head, rows)


def memory_table(outcomes: Sequence[MemoryOutcome]) -> str:
    """Device memory of a step of one size."""
    rows = [
        (
            _paper(each.row),
            f"{each.row.title}, {_recorded_size(each)}",
            _megabytes(each.row.published_base),
            _megabytes(each.without_bytes),
            _megabytes(each.row.published),
            _megabytes(each.smallest_bytes[each.row.planner]) + _mark(memory_is_near(each)),
            _megabytes(each.smallest_bytes[HYBRID]),
        )
        for each in outcomes
    ]
    head = (
        "paper", "network", "without, paper", "without, here", "with, paper",
        "its planner here", "`hybrid`",
    )  # fmt: skip
    return _table(head, rows)


def size_is_near(outcome: SizeOutcome) -> bool:
    """Whether our rendition of the paper's planner comes near to the published size."""
    return _is_near(outcome.largest[outcome.row.planner].value or 0, outcome.row.published)


def speed_is_near(outcome: SpeedOutcome) -> bool:
    """Whether our rendition's step takes about as long as published.

    Where only a slowdown was published, that is compared.
    """
    row, planned = outcome.row, outcome.planned[outcome.row.planner]
    published = _published_at(outcome)
    if published is not None and published.with_system is not None:
        ours = 0 if planned is None else row.speed(outcome.at, planned.step_ns)
        return _is_near(ours, published.with_system)
    if row.slowdown is None or outcome.value != row.published:
        return True  # nothing was published
    if planned is None:
        return False
    below = row.slowdown.at_most and planned.slowdown <= row.slowdown.ratio
    return below or _is_near(planned.slowdown, row.slowdown.ratio)


def memory_is_near(outcome: MemoryOutcome) -> bool:
    """Whether our rendition needs about as much memory as published."""
    return _is_near(outcome.smallest_bytes[outcome.row.planner], outcome.row.published)


def hybrid_reaches(outcome: SizeOutcome) -> bool:
    """Whether hybrid gets as far as was published."""
    return (outcome.largest[HYBRID].value or 0) >= outcome.row.published


def hybrid_keeps_up(outcome: SpeedOutcome) -> bool:
    """Whether hybrid's step takes no longer than with the paper's planner."""
    other, ours = outcome.planned[outcome.row.planner], outcome.planned[HYBRID]
    return other is None or (ours is not None and ours.step_ns <= other.step_ns)


def _published_at(outcome: SpeedOutcome) -> Speed | None:
    return next((s for s in outcome.row.speeds if s.value == outcome.value), None)


def _is_near(ours: float, published: float) -> bool:
    return abs(ours - published) <= TOLERANCE * published


def _mark(near: bool) -> str:
    return "" if near else " †"


def _short(enough: bool) -> str:
    return "" if enough else f" {SHORT}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


def _paper(row: Row | MemoryRow) -> str:
    return row.paper + (" *" if row.soft else "")


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _largest(largest: Largest) -> str:
    return ("at least " if largest.at_least else "") + _count(largest.value)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _speed(row: Row, each: SpeedOutcome, planned: Planned | None) -> str:
    if planned is None:
        return "no plan"
    return f"{_figure(row.speed(each.at, planned.step_ns))} ({planned.slowdown:.2f}x)"


def _published_speed(row: Row, published: Speed | None) -> str:
    """The speed with the paper's system and without, or by how much it was slower."""
    if row.slowdown is not None:
        return f"{'<' if row.slowdown.at_most else ''}{row.slowdown.ratio:.2f}x"
    told = [_figure(published.with_system)] if published and published.with_system else []
    if published and published.without:
        told.append(f"{_figure(published.without)} without")
    return ", ".join(told) or "-"


def _megabytes(size: int | None) -> str:
    return "did not fit" if size is None else f"{size / MB:,.0f} MB"


def _recorded_size(each: MemoryOutcome) -> str:
    return (
        f"{each.row.value:,} layers"
        if "batch" in dict(each.row.sizes)
        else (f"batch {each.row.value:,}")
    )
