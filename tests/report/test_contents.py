# SPDX-License-Identifier: Apache-2.0
"""The contents of a report, before anything is drawn."""

import json

import pytest

from spillway import UserError
from spillway.report import command, gather, perfetto
from spillway.report.contents import MemoryCurve, ParetoPoint, Span
from spillway.report.thinning import thin_curve, thin_spans

from . import samples

SPAN = {"kind": "copy", "storage": 1, "link": "device-to-host"}


def at(curve, time):
    """Bytes by role that are held at a time."""
    index = max(i for i, when in enumerate(curve.times) if when <= time)
    return {role: values[index] for role, values in curve.bytes.items() if values[index]}


def test_memory_without_a_plan(files):
    memory = gather.report(files["TRACE"]).unmanaged
    assert at(memory, 0) == {"parameter": 400, "activation": 100}
    assert at(memory, 120) == {"parameter": 400, "activation": 110, "workspace": 30}
    assert at(memory, 200) == {"parameter": 400, "activation": 110}
    assert at(memory, 350) == {"parameter": 400}
    assert memory.peak() == 540


def test_memory_with_the_plan(files):
    report = gather.report(files["PLAN"], trace=files["TRACE"])
    assert at(report.planned, 50) == {"parameter": 400, "activation": 100}
    assert at(report.planned, 139) == {"parameter": 400, "activation": 100}
    assert at(report.planned, 150) == {"parameter": 400, "activation": 10, "workspace": 30}
    assert at(report.planned, 185) == {"parameter": 400, "activation": 110, "workspace": 30}
    assert at(report.planned, 300) == {"parameter": 400, "activation": 110}
    assert at(report.planned, 420) == {"parameter": 400}
    assert report.slower_tiers["host"].peak() == 100
    assert report.budget_bytes == 505


def test_memory_is_the_same_where_the_disk_is_next_to_the_device(files, files_without_host):
    report = gather.report(files["PLAN"], trace=files["TRACE"])
    assert at(report.planned, 150) == {"parameter": 400, "activation": 10, "workspace": 30}
    assert at(report.planned, 300) == {"parameter": 400, "activation": 110}
    assert list(report.streams) == ["compute", "host to disk", "disk to host"]
    hidden = next(row for row in report.decisions if row.storage == "0 forward (layer1)")
    assert (hidden.decision, hidden.moved_bytes) == ("disk", 200)


def test_a_run_under_another_budget_is_said_to_be_one(files):
    arguments = {"trace": files["TRACE"], "run": files["STATISTICS"]}
    assert not any("budget" in note for note in gather.report(files["PLAN"], **arguments).notes)
    statistics = {**samples.STATISTICS, "budget_bytes": 2048}
    with open(files["STATISTICS"], "w", encoding="utf-8") as file:
        json.dump(statistics, file)
    assert (
        "The run had a budget of 2 KiB, the plan one of 505 B: they do not compare."
        in gather.report(files["PLAN"], **arguments).notes
    )


def rewrite(path, document, **changes):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**document, **changes}, file)


def errors(report):
    charts = pytest.importorskip("spillway.report.charts", reason="there is no plotly")
    return {row["what"]: row["error"] for row in charts.comparison_rows(report.comparisons)}


def test_a_run_on_a_card_tells_how_long_mapping_took(files):
    assert "mapping memory" not in dict(gather.report(files["STATISTICS"]).facts)
    rewrite(files["STATISTICS"], samples.STATISTICS, mapping_ns=250)
    assert dict(gather.report(files["STATISTICS"]).facts)["mapping memory"] == "25.0 %"


def test_what_does_not_compare_has_no_error(files):
    arguments = {"trace": files["TRACE"], "run": files["STATISTICS"]}
    assert errors(gather.report(files["PLAN"], **arguments)) == {
        "step time": "-16.0 %", "peak on the device": "+8.0 %", "moved in a step": "+0.0 %",
    }  # fmt: skip
    for budget, told in ((2048, "a budget of 2"), (1 << 62, "no budget, the plan")):
        rewrite(files["STATISTICS"], samples.STATISTICS, budget_bytes=budget)
        report = gather.report(files["PLAN"], **arguments)
        assert set(errors(report).values()) == {"-"}
        assert f"The run had {told}" in report.notes[-1]


def test_the_step_of_another_machine_does_not_compare_with_the_run(files):
    """The run was on the machine that the step was recorded on, the plan is for a card."""
    elsewhere = {"machine": "h200", "durations": "estimated", "recorded_on": "Fast 9000",
                 "recorded_elsewhere": True}  # fmt: skip
    rewrite(files["SIMULATION"], samples.SIMULATION, **elsewhere)
    report = gather.report(files["PLAN"], trace=files["TRACE"], run=files["STATISTICS"])
    assert errors(report) == {
        "step time": "-", "peak on the device": "+8.0 %", "moved in a step": "+0.0 %",
    }  # fmt: skip
    assert any("the step times do not compare" in note for note in report.notes)
    assert (
        "The step was recorded on Fast 9000: durations are estimated from the figures of h200."
        in report.notes
    )
    assert ("durations", "estimated") in report.facts


def test_a_run_of_no_whole_step_has_a_peak_alone(files):
    rewrite(files["STATISTICS"], samples.STATISTICS, last_step_ns=0, last_step_moved_bytes=0)
    report = gather.report(files["PLAN"], trace=files["TRACE"], run=files["STATISTICS"])
    assert errors(report) == {
        "step time": "-", "peak on the device": "+8.0 %", "moved in a step": "-",
    }  # fmt: skip
    assert report.notes[-1].startswith("The run has counted no whole step:")


def test_a_plan_stands_at_the_whole_budget_that_it_was_made_for(files):
    """Not at what the workspace margin leaves of it: a comparison has whole budgets too."""
    rewrite(files["PLAN"], samples.PLAN, workspace_margin=5)
    rewrite(files["SIMULATION"], samples.SIMULATION, workspace_margin=5, machine="h200")
    arguments = {"trace": files["TRACE"], "compare": files["COMPARED"]}
    lower = {"host": 1000, "disk": 0}
    same = {"machine": "h200", "compute_ns": 350, "workspace_margin": 5, "budgets": lower}
    rewrite(files["COMPARED"], samples.COMPARED, **same)
    report = gather.report(files["PLAN"], **arguments, run=files["STATISTICS"])
    assert report.budget_bytes == 510
    assert report.own_point == ParetoPoint("this plan", 510, 420)
    assert any("The run had a budget of 505 B, the plan one of 510 B" in n for n in report.notes)
    for member, other, told in (
        ("machine", "a100", "another machine"),
        ("compute_ns", 351, "another time of computing"),
        ("workspace_margin", 6, "another margin for workspace"),
        ("budgets", {**lower, "host": 1001}, "another budget of the host"),
        ("budgets", {**lower, "disk": 1}, "another budget of the disk"),
    ):
        rewrite(files["COMPARED"], samples.COMPARED, **{**same, member: other})
        report = gather.report(files["PLAN"], **arguments)
        assert report.own_point is None
        assert f"The comparison of planners is with {told}" in report.notes[-1]


def test_the_bound_ends_where_no_planner_has_a_plan(files):
    compared = json.loads(json.dumps(samples.COMPARED))
    compared["points"].append({"planner": "lru", "budget_bytes": 300, "feasible": False})
    compared["bound"].append({"budget_bytes": 300, "step_ns": 90_000})
    rewrite(files["COMPARED"], compared)
    report = gather.report(files["PLAN"], trace=files["TRACE"], compare=files["COMPARED"])
    assert [point.budget_bytes for point in report.bound] == [505, 510]


def test_a_plan_has_times_though_its_trace_has_none(files):
    rewrite(files["TRACE"], samples.TRACE, timed=False)
    assert "The trace has no durations: the axis counts ops." in gather.report(files["TRACE"]).notes
    assert not any("ops" in n for n in gather.report(files["PLAN"], trace=files["TRACE"]).notes)


def test_what_moves_is_counted_whether_its_storage_is_listed_or_not(files, monkeypatch):
    monkeypatch.setattr(gather, "decisions", lambda *_: [])
    report = gather.report(files["PLAN"], trace=files["TRACE"], run=files["STATISTICS"])
    figures = {each.what: (each.predicted, each.measured) for each in report.comparisons}
    assert figures["moved in a step"] == (200, 200)


def test_the_predicted_step_ends_where_the_next_begins(files):
    """Not where the last copy ends, which may be in the next step."""
    late = {**SPAN, "begin": 410, "end": 900}
    timeline = samples.SIMULATION["timeline"]
    timeline = {**timeline, "spans": [*timeline["spans"], late]}
    with open(files["SIMULATION"], "w", encoding="utf-8") as file:
        json.dump({**samples.SIMULATION, "timeline": timeline}, file)
    report = gather.report(files["PLAN"], trace=files["TRACE"], run=files["STATISTICS"])
    assert {each.what: each.predicted for each in report.comparisons}["step time"] == 420


def test_the_lower_bound_and_what_binds_are_among_the_facts(files):
    facts = dict(gather.report(files["PLAN"], trace=files["TRACE"]).facts)
    assert (facts["lower bound"], facts["what binds"]) == ("400 ns", "fetching")


def test_a_machine_is_called_by_its_name_not_its_file(files):
    with open(files["SIMULATION"], "w", encoding="utf-8") as file:
        json.dump({**samples.SIMULATION, "machine": "here"}, file)
    with open(files["PLAN"], "w", encoding="utf-8") as file:
        json.dump({**samples.PLAN, "machine": "/far/away/here.json"}, file)
    assert ("machine", "here") in gather.report(files["PLAN"], trace=files["TRACE"]).facts


def test_decisions_say_what_when_and_why(files):
    report = gather.report(files["PLAN"], trace=files["TRACE"])
    hidden = next(row for row in report.decisions if row.storage == "0 forward (layer1)")
    assert (hidden.decision, hidden.moved_bytes) == ("host", 200)
    assert hidden.leaves == "0 forward (layer1)"
    assert hidden.returns == "2 backward"
    assert "50 ns" in hidden.reason


def test_streams_are_lanes(files):
    report = gather.report(files["PLAN"], trace=files["TRACE"])
    assert list(report.streams) == ["compute", "device to host", "host to device"]
    stalls = [span for span in report.streams["compute"] if span.kind == "stall"]
    assert [span.label for span in stalls] == [
        "waits for room for new storages",
        "waits for a fetch under way",
    ]


def test_a_run_is_compared_with_its_plan(files):
    report = gather.report(files["PLAN"], trace=files["TRACE"], run=files["STATISTICS"])
    figures = {each.what: (each.predicted, each.measured) for each in report.comparisons}
    assert figures["step time"] == (420, 500)
    assert figures["moved in a step"] == (200, 200)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        ("[1]", "holds no object"),
        ("{", "is no JSON"),
        ("{}", "neither a trace nor a plan"),
    ],
)
def test_other_files_are_refused(tmp_path, capsys, content, told):
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    assert command.main([str(path), "-o", str(tmp_path / "page.html")]) == 2
    assert told in capsys.readouterr().err


def test_a_report_that_goes_nowhere_is_a_mistake(files, capsys):
    assert command.main([files["TRACE"]]) == 2
    assert "-o FILE" in capsys.readouterr().err


def test_what_was_written_is_told_as_json(files, tmp_path, capsys):
    events = str(tmp_path / "events.json")
    assert command.main([files["TRACE"], "--perfetto", events, "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == {"perfetto": events}
    assert told.err == f"spillway: wrote {events}\n"  # no progress: this is no terminal


def test_a_plan_needs_its_trace(files):
    with pytest.raises(UserError, match="--trace"):
        gather.report(files["PLAN"])


def test_a_plan_finds_its_trace_where_both_were_moved(files, tmp_path):
    beside = tmp_path / "plan.json"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump({**samples.PLAN, "trace": "somewhere/else/trace.json"}, file)
    assert gather.report(str(beside)).title == "trace: plan of hybrid"


def test_perfetto_has_every_span_and_the_memory(files):
    report = gather.report(files["PLAN"], trace=files["TRACE"])
    events = json.loads(perfetto.trace_events(report))["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert len(bars) == 7
    backward = next(event for event in bars if event["name"] == "2 backward")
    assert (backward["ts"], backward["dur"]) == (0.22, 0.2)
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"device memory", "host"}


def test_thinning_keeps_the_peak():
    heights = [i * 7919 % 1000 for i in range(20_000)]
    curve = MemoryCurve(list(range(20_000)), {"activation": heights})
    thin = thin_curve(curve, 100)
    assert len(thin.times) <= 103
    assert thin.peak() == max(heights)


def test_thinning_joins_close_neighbours_only():
    close = [Span(i * 10, i * 10 + 9, "op", f"op {i}") for i in range(1000)]
    far = [Span(90_000, 90_005, "op", "late")]
    joined = thin_spans(close + far, 100_000, 500)
    assert joined[-1].label == "late"
    assert sum(span.end - span.begin for span in joined) >= 9000
    assert len(joined) < 20
