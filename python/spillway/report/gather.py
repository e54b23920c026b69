# SPDX-License-Identifier: Apache-2.0
"""Collects what a report shows from the files it is given."""

import os
import pathlib
from typing import Any

from spillway._native import UserError
from spillway.report.contents import (
    Basis,
    BoundPoint,
    Comparison,
    ParetoPoint,
    Report,
    Span,
)
from spillway.report.decisions import decisions
from spillway.report.planned_memory import device_links, planned_memory, slower_tiers
from spillway.report.quantities import duration, size
from spillway.report.simulation import ask
from spillway.report.trace_file import Trace, own_starts, read_json, unmanaged_memory

_LANES = {
    "device-to-host": "device to host",
    "host-to-device": "host to device",
    "host-to-disk": "host to disk",
    "disk-to-host": "disk to host",
}
_NO_BUDGET = 1 << 62  # what statistics have where none was set, as in mode record
_COUNTS_OPS = "The trace has no durations: the axis counts ops."
_CAUSES = {
    "allocation": "room for new storages",
    "input": "a fetch under way",
    "demand_fetch": "a fetch nobody had queued",
    "wait": "a copy, as the plan says",
}


def report(
    subject: str,
    *,
    trace: str | None = None,
    machine: str | None = None,
    compare: str | None = None,
    run: str | None = None,
    title: str | None = None,
) -> Report:
    """The report about `subject`, which is a trace, a plan or the statistics of a run.

    Raises:
        UserError: a file is missing or is something else.
    """
    document = read_json(subject)
    if "spillway_trace" in document:
        result = _of_trace(Trace.from_json(document, subject), subject)
    elif "spillway_plan" in document:
        result = _of_plan(document, subject, trace or _own_trace(document, subject), machine)
    elif "budget_bytes" in document and "mode" in document:
        result = _of_run(document, subject, trace)
    else:
        raise UserError(
            f"{subject} is neither a trace nor a plan nor statistics of a run: name one of these"
        )
    if compare:
        _add_comparison_of_planners(result, read_json(compare))
    if run:
        _add_measured(result, read_json(run))
    if title:
        result.title = title
    return result


def _own_trace(plan: dict[str, Any], subject: str) -> str:
    """The trace that the plan names, here or beside the plan."""
    named = plan.get("trace", "")
    # Plan and trace may have moved together.
    for path in (pathlib.Path(named), pathlib.Path(subject).parent / pathlib.Path(named).name):
        if named and path.is_file():
            return str(path)
    raise UserError(f"{subject} is a plan: name the trace it belongs to with --trace")


def _stem(path: str | os.PathLike) -> str:
    return pathlib.Path(path).name.removesuffix(".zst").removesuffix(".json")


def _notes(trace: Trace) -> list[str]:
    notes = [f"Recorded by {trace.framework}."] if trace.framework else []
    if not trace.workspace_known:
        notes.append("Without workspace: what kernels allocate for themselves is not known.")
    return notes


def _of_trace(trace: Trace, path: str) -> Report:
    starts = own_starts(trace)
    memory = unmanaged_memory(trace, starts)
    facts = [
        ("ops", f"{len(trace.ops):,}"),
        ("storages", f"{len(trace.storages):,}"),
        ("peak", size(memory.peak())),
    ]
    if trace.timed:
        facts.insert(0, ("step time", duration(starts[-1])))
    if trace.machine:
        facts.append(("machine", trace.machine))
    spans = [Span(starts[i], starts[i + 1], "op", trace.op_name(i)) for i in range(len(trace.ops))]
    return Report(
        title=f"{_stem(path)}: a recorded step",
        facts=facts,
        notes=_notes(trace) + ([] if trace.timed else [_COUNTS_OPS]),
        unmanaged=memory,
        streams={"compute": spans} if trace.timed else {},
        counts_ops=not trace.timed,
    )


def _of_plan(plan: dict[str, Any], path: str, trace_path: str, machine: str | None) -> Report:
    trace = Trace.read(trace_path)
    arguments = ["simulate", trace_path, "--plan", path, "--timeline"]
    if machine:
        arguments += ["--machine", machine]
    simulated = ask(*arguments)
    if not simulated.get("feasible", True):
        raise UserError(
            f"{path} cannot be carried out: {simulated.get('reason', 'no reason told')}. "
            "Make it again with spillway plan"
        )
    timeline = simulated.get("timeline", {})
    spans = timeline.get("spans", [])
    step = simulated["step_ns"]
    starts = _unlimited_starts(trace, spans)
    budgets = {tier: plan.get(f"{tier}_budget", 0) for tier in ("device", "host", "disk")}
    basis = _basis(simulated, budgets)
    rows = decisions(trace, plan, spans, starts)
    return Report(
        title=f"{_stem(trace_path)}: plan of {plan.get('planner', 'unknown')}",
        facts=_plan_facts(plan, simulated, budgets),
        notes=_notes(trace) + _basis_notes(basis),
        budget_bytes=budgets["device"] + basis.margin_bytes or None,
        unmanaged=unmanaged_memory(trace, starts),
        planned=planned_memory(timeline, step),
        slower_tiers=slower_tiers(timeline, step),
        streams=_lanes(trace, spans),
        decisions=rows,
        decisions_left_out=len(trace.storages) - len(rows),
        moved_bytes=_moved(simulated.get("links", {})),
        basis=basis,
        step_ns=step,
    )


def _basis(answer: dict[str, Any], budgets: dict[str, int]) -> Basis:
    """As far as the command says it."""
    return Basis(
        machine=answer.get("machine", ""),
        durations=answer.get("durations", ""),
        recorded_on=answer.get("recorded_on", ""),
        recorded_elsewhere=answer.get("recorded_elsewhere", False),
        compute_ns=answer.get("compute_ns", 0),
        margin_bytes=answer.get("workspace_margin", 0),
        host_bytes=budgets["host"],
        disk_bytes=budgets["disk"],
    )


def _basis_notes(basis: Basis) -> list[str]:
    if not basis.recorded_elsewhere:
        return []
    taken = (
        f"durations are estimated from the figures of {basis.machine}"
        if basis.durations == "estimated"
        else f"durations are those, copies take as long as on {basis.machine}"
    )
    return [f"The step was recorded on {basis.recorded_on}: {taken}."]


def _moved(links: dict[str, dict[str, Any]]) -> int:
    used = {name: link.get("bytes", 0) for name, link in links.items() if link.get("bytes", 0)}
    return sum(used.get(link, 0) for link in device_links(used))


def _unlimited_starts(trace: Trace, spans: list[dict[str, Any]]) -> list[int]:
    """When ops would begin if nothing stalled, by the simulator's durations of them."""
    lengths = [0] * len(trace.ops)
    for span in spans:
        if span["kind"] == "op":
            lengths[span["op"]] = span["end"] - span["begin"]
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    return starts


def _plan_facts(plan, simulated, budgets) -> list[tuple[str, str]]:
    step, compute = simulated["step_ns"], simulated.get("compute_ns", 0)
    facts = [("step time", duration(step))]
    if compute:
        facts.append(("slower than without limit", f"{100 * (step / compute - 1):.1f} %"))
    if simulated.get("workspace_margin"):
        facts.append(("left free for workspace", size(simulated["workspace_margin"])))
    for tier in ("device", "host", "disk"):
        peak = simulated.get("peak", {}).get(tier, {}).get("bytes", 0)
        if budgets.get(tier) and peak:
            facts.append((f"peak on the {tier}, of {size(budgets[tier])}", size(peak)))
    if "bound" in simulated:
        facts.append(("lower bound", duration(simulated["bound"]["step_ns"])))
        facts.append(("what binds", simulated["bound"]["binds"]))
    facts.append(("moved in a step", size(_moved(simulated.get("links", {})))))
    if simulated.get("recomputations"):
        facts.append(("ops recomputed", f"{simulated['recomputations']:,}"))
    machine = simulated.get("machine") or plan.get("machine")
    if machine:
        facts.append(("machine", machine))
    if "durations" in simulated:
        facts.append(("durations", simulated["durations"]))
    return facts


def _lanes(trace: Trace, spans: list[dict[str, Any]]) -> dict[str, list[Span]]:
    lanes: dict[str, list[Span]] = {"compute": []}
    for span in spans:
        kind = span["kind"]
        if kind == "copy":
            lane = _LANES.get(span["link"], span["link"])
            storage = span["storage"]
            label = f"{trace.storage_name(storage)}, {size(trace.storages[storage]['bytes'])}"
        elif kind == "stall":
            lane = "compute"
            cause = span.get("cause", "")
            label = f"waits for {_CAUSES.get(cause, cause)}"
        else:
            lane, label = "compute", trace.op_name(span["op"])
        lanes.setdefault(lane, []).append(Span(span["begin"], span["end"], kind, label))
    return {lane: lanes[lane] for lane in ("compute", *_LANES.values()) if lane in lanes}


def _part_of_time(figure: str, statistics: dict[str, Any]) -> str:
    return f"{100 * statistics[figure] / max(statistics['elapsed_ns'], 1):.1f} %"


def _of_run(statistics: dict[str, Any], path: str, trace_path: str | None) -> Report:
    result = (
        _of_trace(Trace.read(trace_path), trace_path)
        if trace_path
        else Report(title=_stem(path), facts=[])
    )
    result.title = f"{_stem(path)}: a run"
    result.budget_bytes = statistics["budget_bytes"] or None
    result.facts = [
        ("budget", size(statistics["budget_bytes"])),
        ("peak held", size(statistics["peak_device_bytes"])),
        ("steps", f"{statistics['steps']:,}"),
        ("last step", duration(statistics["last_step_ns"])),
        ("moved in the last step", size(statistics["last_step_moved_bytes"])),
        ("stalled", _part_of_time("stall_ns", statistics)),
    ]
    if statistics.get("mapping_ns"):  # of a card's memory
        result.facts.append(("mapping memory", _part_of_time("mapping_ns", statistics)))
    return result


def _add_comparison_of_planners(result: Report, compared: dict[str, Any]) -> None:
    for point in compared.get("points", ()):
        if point.get("step_ns"):
            result.pareto.append(
                ParetoPoint(point["planner"], point["budget_bytes"], point["step_ns"])
            )
    # Where nobody has a plan there is nothing to bound.
    planned = {point.budget_bytes for point in result.pareto}
    result.bound = [
        BoundPoint(point["budget_bytes"], point["step_ns"])
        for point in compared.get("bound", ())
        if point["budget_bytes"] in planned
    ]
    if result.planned is None or not result.budget_bytes:
        return
    others = _differences(result.basis, compared)
    if others:
        result.notes.append(
            f"The comparison of planners is with another {' and another '.join(others)}: this "
            "plan is not drawn among them."
        )
        return
    result.own_point = ParetoPoint("this plan", result.budget_bytes, result.step_ns)


def _differences(basis: Basis, compared: dict[str, Any]) -> list[str]:
    """In what a comparison differs from the plan, as far as it says."""
    lower = compared.get("budgets", {})
    figures = {
        "machine": (compared.get("machine"), basis.machine),
        "time of computing": (compared.get("compute_ns"), basis.compute_ns),
        "margin for workspace": (compared.get("workspace_margin"), basis.margin_bytes),
        "budget of the host": (lower.get("host"), basis.host_bytes),
        "budget of the disk": (lower.get("disk"), basis.disk_bytes),
    }
    return [what for what, (theirs, own) in figures.items() if theirs not in (None, own)]


def _budget_words(given: int) -> str:
    return "no budget" if given >= _NO_BUDGET else f"a budget of {size(given)}"


def _add_measured(result: Report, statistics: dict[str, Any]) -> None:
    if result.planned is None:
        raise UserError("--run compares a run with a plan: name a plan to report on")
    given = statistics["budget_bytes"]
    same = not result.budget_bytes or given == result.budget_bytes
    same_time = same and not result.basis.recorded_elsewhere
    if not same:
        result.notes.append(
            f"The run had {_budget_words(given)}, the plan one of {size(result.budget_bytes)}: "
            "they do not compare."
        )
    elif not same_time:
        result.notes.append(
            f"The plan is for {result.basis.machine}, and the step was recorded elsewhere: the "
            "step times do not compare."
        )
    stepped = statistics["last_step_ns"] > 0
    if not stepped:
        result.notes.append(
            "The run has counted no whole step: step time and bytes moved do not compare."
        )
    result.comparisons = [
        Comparison("step time", "ns", result.step_ns, statistics["last_step_ns"],
                   same_time and stepped),
        Comparison("peak on the device", "bytes", result.planned.peak(),
                   statistics["peak_live_bytes"], same),
        Comparison("moved in a step", "bytes", result.moved_bytes,
                   statistics["last_step_moved_bytes"], same and stepped),
    ]  # fmt: skip
