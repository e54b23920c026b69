# SPDX-License-Identifier: Apache-2.0
"""Figures that the benchmarks of large and of alternative programs derive from measurements."""

import importlib
from pathlib import Path

import pytest

MIB = 1 << 20


@pytest.fixture
def large():
    return importlib.import_module("bench_large")


def test_the_count_of_parameters_is_that_of_the_model(large):
    torch = pytest.importorskip("torch")
    gpt = importlib.import_module("gpt")
    model = large.Model(layers=3, width=20, heads=2, size=7, vocabulary=11)
    with torch.device("meta"):
        built = gpt.GPT(**vars(model))
    assert model.parameters() == sum(p.numel() for p in built.parameters())


def test_the_full_model_is_gpt2_xl(large):
    gpt = pytest.importorskip("torch") and importlib.import_module("gpt")
    assert vars(large.Model()) == gpt.DEFAULTS
    assert large.Model().parameters() == 1_557_611_200  # as published: 1558M
    assert large.Model().state() == 1_557_611_200 * 16


# 2 layers take 3 + 2 * 0.5 s, 6 layers 3 + 6 * 0.5 s: 48 take 27 s.
def test_computing_alone_adds_what_each_layer_takes(large):
    assert large.alone(4.0, 6.0, 2, 6, 48) == pytest.approx(27.0)


def test_a_step_is_what_the_counters_gained(large):
    before = {"stall_ns": 10**9, "disk_written_bytes": 5, "disk_read_bytes": 7}
    after = {"stall_ns": 3 * 10**9, "disk_written_bytes": 105, "disk_read_bytes": 207}
    step = large.Step.between(9.0, before, after)
    assert (step.seconds, step.stalled, step.written, step.read) == (9.0, 2.0, 100, 200)


def test_the_table_sets_a_step_beside_computing_and_the_disk(large):
    spread = importlib.import_module("paired_runs").Spread(40.0, 38.0, 41.0, 3)
    rates = importlib.import_module("disk_rate").Rates(2e9, 3e9, "fio")
    steps = [large.Step(seconds, 2.0, 4 * 10**9, 9 * 10**9) for seconds in (60.0, 80.0, 100.0)]
    run = large.Managed(steps, 4, 0, None, 0, 0, 0, 0, 0)
    lines = large.rows(spread, rates, run, None)
    by_name = {line[0]: line[1:3] for line in lines}
    assert by_name["the disk alone"] == ("5.0", "0.12"), "4 GB at 2, then 9 GB at 3"
    assert by_name["Spillway"] == ("80.0", "2.00")
    assert by_name["the same less stalls"] == ("78.0", "1.95")
    assert lines[-1][-1] == "not run"


LOG = """\
[1.5] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a/spillway-bench-12,task=python,pid=5
[1.6] Memory cgroup out of memory: Killed process 5 (python) anon-rss:7kB
[2.5] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a/spillway-bench-123,task=python,pid=6
[2.6] Memory cgroup out of memory: Killed process 6 (python) anon-rss:8kB
"""


def test_the_kernels_words_are_those_about_the_group():
    last_kill = importlib.import_module("memory_group").last_kill
    words = "Memory cgroup out of memory: Killed process 5 (python) anon-rss:7kB"
    assert last_kill(LOG, "spillway-bench-12") == words
    assert last_kill(LOG, "spillway-bench-1") == ""


def observed(alternatives, peak, floor=10 * MIB):
    needs = importlib.import_module("bench_budget").Needs(peak, floor, 300 * MIB)
    return alternatives.Observed(needs, 900 * MIB)


# Peak 1000, checkpointed 600, floor 10: Spillway at 600 and at 30 %.
def test_spillway_has_the_peak_that_checkpointing_reaches():
    alternatives = importlib.import_module("bench_alternatives")
    three = [observed(alternatives, peak * MIB) for peak in (1000, 600, 700)]
    found = alternatives.ways(*three, Path("/spool"), {})
    assert [way.budget for way in found if way.budget] == [600 * MIB, 300 * MIB]
    swap = found[-1]
    assert swap.room == (300 + 300 + 16) * MIB, "what is no tensor, the budget, page tables"


def test_no_budget_is_below_the_floor_or_above_the_peak():
    alternatives = importlib.import_module("bench_alternatives")
    three = [observed(alternatives, peak * MIB, 800 * MIB) for peak in (1000, 600, 700)]
    found = alternatives.ways(*three, Path("/spool"), {})
    budgets = [way.budget for way in found if way.budget]
    assert budgets == [pytest.approx(920 * MIB, abs=1)], "1.15 times the floor, once"


@pytest.mark.parametrize("way", ["recompute", "disk"])
def test_where_saved_tensors_lie_changes_no_gradient(way, monkeypatch):
    torch = pytest.importorskip("torch")
    less_memory = importlib.import_module("less_memory")
    monkeypatch.setattr(less_memory, "LEAST_BYTES", 64)

    def gradients(where):
        torch.manual_seed(0)
        blocks = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))
        saved = less_memory.saved_of(blocks, blocks, where)
        x = torch.randn(8, 16)
        with saved:
            for block in blocks:
                x = torch.tanh(block(x))
        x.square().sum().backward()
        return [parameter.grad for parameter in blocks.parameters()]

    for ours, plain in zip(gradients(way), gradients("memory"), strict=True):
        assert torch.equal(ours, plain)


def test_parameters_do_not_go_to_files():
    torch = pytest.importorskip("torch")
    files = importlib.import_module("less_memory").Files
    weight = torch.nn.Parameter(torch.zeros(1024, 1024))
    assert files([weight]).write(weight.t()).data_ptr() == weight.data_ptr()
    packed = files([]).write(torch.ones(512, 1024))
    assert isinstance(packed, tuple)
    assert torch.equal(files([]).read(packed), torch.ones(512, 1024))
