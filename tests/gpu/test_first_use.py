# SPDX-License-Identifier: Apache-2.0
"""A budget of a card before the program uses one: nothing is managed, and no context is made."""

import json

import pytest

from tests.gpu.processes import USES_IT, on_a_card, told

BUDGET = "400MiB"


@on_a_card
def test_it_starts_as_the_program_begins_to_use_the_card(tmp_path):
    code = """
import spillway, torch
try:
    spillway.stats()
except RuntimeError as error:
    assert "not active yet" in str(error)
else:
    raise AssertionError
weights = torch.ones(1 << 20)
spillway.keep(weights)  # of the CPU's memory, which is not managed
spillway.reset_peak()
assert not torch.cuda.is_initialized()
on_card = torch.empty(8 << 20, device="cuda")
found = spillway.stats()
assert found.budget_bytes == 400 << 20, found
assert found.peak_live_bytes >= 32 << 20, found
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_it_starts_with_a_step_where_no_python_made_the_tensors(tmp_path):
    code = """
import spillway, torch
class Still(torch.optim.Optimizer):
    def step(self):
        pass
weights = torch.ops.aten.empty.memory_format([8 << 20], device=torch.device("cuda"))
assert not torch.cuda.is_initialized()
Still([weights], {}).step()
found = spillway.stats()
assert found.budget_bytes == 400 << 20, found
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_a_forked_process_may_use_the_card_which_its_parent_did_not(tmp_path):
    code = """
import os, spillway, torch
child = os.fork()
on_card = torch.empty(8 << 20, device="cuda")
assert spillway.stats().budget_bytes == 400 << 20
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_what_the_program_sets_itself_stands_instead(tmp_path):
    code = """
import spillway, torch
with spillway.budget("cpu:300MiB"):
    assert spillway.stats().budget_bytes == 300 << 20
spillway.enable("cpu:200MiB")
torch.empty(8 << 20, device="cuda")
assert spillway.stats().budget_bytes == 200 << 20
spillway.disable()
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_the_budget_waits_again_after_another(tmp_path):
    code = """
import spillway, torch
with spillway.budget("cuda:300MiB"):
    assert spillway.stats().budget_bytes == 300 << 20
torch.empty(8 << 20, device="cuda")
assert spillway.stats().budget_bytes == 400 << 20
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_it_does_not_start_after_disable(tmp_path):
    code = """
import spillway, torch
spillway.disable()
torch.empty(8 << 20, device="cuda")
try:
    print(spillway.stats())
except RuntimeError as error:
    assert "not active" in str(error)
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_another_allocator_is_refused_before_the_first_use(tmp_path):
    code = """
import types, torch
try:
    torch.cuda.memory.change_current_allocator(types.SimpleNamespace(allocator=lambda: None))
except RuntimeError as error:
    assert str(error).startswith("Spillway: another allocator"), error
else:
    raise AssertionError
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_a_budget_that_is_larger_than_the_card_is_refused_as_the_cards(tmp_path):
    said = told(tmp_path, 2, USES_IT, SPILLWAY_BUDGET="4000GiB")
    assert "SPILLWAY_BUDGET (of the graphics card): need 3.906 TiB, have" in said


@on_a_card
def test_a_wrong_setting_is_refused_with_the_import(tmp_path):
    said = told(tmp_path, 2, SPILLWAY_BUDGET=BUDGET, SPILLWAY_STATS=str(tmp_path / "no" / "folder"))
    assert "SPILLWAY_STATS" in said
    said = told(tmp_path, 2, SPILLWAY_BUDGET="12Gallons")
    assert "SPILLWAY_BUDGET" in said


TRAINS_ON_THE_CPU = """
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
weight = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([weight], lr=0.1)
# One more for all optimizers, registered after Spillway's.
register_optimizer_step_pre_hook(lambda *_: None)
for _ in range(2):
    weight.sum().backward()
    optimizer.step()
assert weight.device.type == "cpu"
"""


@on_a_card
@pytest.mark.parametrize(
    ("budget", "times"), [(BUDGET, 1), (f"cpu:{BUDGET}", 0), (f"cuda:{BUDGET}", 0)]
)
def test_who_trains_on_the_cpu_beside_a_card_is_told_that_it_has_no_limit(budget, times, tmp_path):
    said = told(tmp_path, 0, TRAINS_ON_THE_CPU, SPILLWAY_BUDGET=budget)
    assert said.count("whose memory has no limit") == times, said
    assert said.count("a budget of cpu:400MiB") == times, said


@on_a_card
def test_run_says_that_the_card_was_not_used(tmp_path, command):
    stats = tmp_path / "stats.json"
    before = [command, "run", "--budget", BUDGET, "--stats", stats, "--"]
    said = told(tmp_path, 0, before=before)
    assert "the program used no graphics card, so nothing was managed" in said
    assert "loaded no framework" not in said
    found = json.loads(stats.read_text())
    assert found["mode"] == "enforce"
    assert found["budget_bytes"] == found["peak_device_bytes"] == 0


@on_a_card
def test_run_tells_of_the_card(tmp_path, command):
    before = [command, "run", "--budget", BUDGET, "--"]
    said = told(tmp_path, 0, USES_IT, before=before)
    assert "of budget 400 MiB" in said
    assert "pages     page pool" not in said
    assert "2 MiB a page" in said
