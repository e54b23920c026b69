# SPDX-License-Identifier: Apache-2.0
"""Makes long series short enough to draw, without losing what a reader looks for."""

from spillway.report.contents import MemoryCurve, Span


def thin_curve(curve: MemoryCurve, most: int = 1500) -> MemoryCurve:
    """At most about `most` points: of each stretch of time the moment of its highest total.

    So peaks keep their height; valleys within a stretch are lost.
    """
    if len(curve.times) <= most:
        return curve
    totals = curve.totals()
    first, last = curve.times[0], curve.times[-1]
    width = max((last - first) / most, 1e-9)
    best: dict[int, int] = {}
    for i, time in enumerate(curve.times):
        stretch = int((time - first) / width)
        if stretch not in best or totals[i] > totals[best[stretch]]:
            best[stretch] = i
    chosen = sorted({0, len(curve.times) - 1, *best.values()})
    return MemoryCurve(
        [curve.times[i] for i in chosen],
        {role: [values[i] for i in chosen] for role, values in curve.bytes.items()},
    )


def thin_spans(spans: list[Span], length: int, most: int = 1200) -> list[Span]:
    """Joins neighbours of one kind whose gap is too short to be seen in a step of `length`."""
    if len(spans) <= most:
        return spans
    gap = length / most
    joined: list[Span] = []
    counts: list[int] = []
    for span in sorted(spans, key=lambda each: each.begin):
        last = joined[-1] if joined else None
        if (
            last
            and last.kind == span.kind
            and span.begin - last.end < gap
            and (span.end - last.begin < 20 * gap)
        ):
            last.end = max(last.end, span.end)
            counts[-1] += 1
        else:
            joined.append(Span(span.begin, span.end, span.kind, span.label))
            counts.append(1)
    for span, count in zip(joined, counts):
        if count > 1:
            span.label = f"{span.label} and {count - 1} more"
    return joined
