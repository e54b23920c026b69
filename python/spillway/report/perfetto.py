# SPDX-License-Identifier: Apache-2.0
"""The step as a trace-event file, which Perfetto (ui.perfetto.dev) and Chrome's tracing open."""

import json
from typing import Any

from spillway.report.contents import Report


def trace_events(report: Report) -> str:
    """The file's text. Streams are threads of one process, memory is counters."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": report.title}}
    ]
    for thread, (lane, spans) in enumerate(report.streams.items(), start=1):
        events.append(
            {"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": lane}}
        )
        events += [
            {
                "ph": "X",
                "pid": 1,
                "tid": thread,
                "name": span.label,
                "cat": span.kind,
                "ts": span.begin / 1000,  # microseconds, as the format has it
                "dur": (span.end - span.begin) / 1000,
            }
            for span in spans
        ]
    device = report.planned or report.unmanaged
    curves = {"device memory": device, **report.slower_tiers}
    for name, curve in curves.items():
        if curve is None:
            continue
        roles = [role for role, values in curve.bytes.items() if any(values)]
        for i, time in enumerate(curve.times):
            held = {role: curve.bytes[role][i] for role in roles}
            events.append({"ph": "C", "pid": 1, "name": name, "ts": time / 1000, "args": held})
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))
