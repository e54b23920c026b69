# SPDX-License-Identifier: Apache-2.0
"""A budget of a card before the program uses one: nothing is managed, and no context is made."""

import json
import re
import signal
import sys

import pytest

from tests.gpu.processes import THROUGH, USES_IT, on_a_card, on_the_stand_in, told

BUDGET = "90%"


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
assert found.mode == "enforce", found
assert found.peak_live_bytes >= 32 << 20, found
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
@pytest.mark.parametrize("size", [8 << 20, 100])  # PyTorch's own, too
def test_it_starts_with_memory_of_which_no_python_told(size, tmp_path):
    code = f"""
import spillway, torch
weights = torch.ops.aten.empty.memory_format([{size}], device=torch.device("cuda"))
assert not torch.cuda.is_initialized()
found = spillway.stats()
assert found.mode == "enforce", found
assert (found.peak_live_bytes >= 32 << 20) == ({size} >= 8 << 20), found
torch.cuda.init()
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
def test_a_forked_process_may_use_the_card_which_its_parent_did_not(tmp_path):
    code = """
import os, warnings, spillway, torch
warnings.simplefilter("ignore")  # that this process has other threads
child = os.fork()
on_card = torch.empty(8 << 20, device="cuda")
assert spillway.stats().peak_live_bytes >= 32 << 20
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET="40%") == ""


@on_a_card
@pytest.mark.parametrize("budget", [BUDGET, f"cuda:{BUDGET}"])
def test_the_cpus_memory_is_refused_until_nothing_waits(budget, tmp_path):
    code = """
import spillway, torch
for limit in ("cpu:300MiB", "cpu:4000TiB"):
    try:
        spillway.enable(limit)
    except spillway.UserError as error:
        assert "waits for this program to use a graphics card" in str(error), error
    else:
        raise AssertionError
try:
    with spillway.budget("cpu:300MiB"):
        pass
except spillway.UserError:
    pass
else:
    raise AssertionError
torch.empty(8 << 20, device="cuda")
assert spillway.stats().peak_live_bytes >= 32 << 20
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=budget) == ""
    code = """
import spillway, torch
spillway.disable()
spillway.enable("cpu:300MiB")
torch.empty(8 << 20, device="cuda")
assert spillway.stats().budget_bytes == 300 << 20
assert spillway.stats().peak_live_bytes == 0
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=budget) == ""


@on_a_card
def test_the_budget_holds_again_after_a_block_with_another(tmp_path):
    code = """
import spillway, torch
with spillway.budget("cuda:70%"):
    inside = spillway.stats().budget_bytes
torch.empty(8 << 20, device="cuda")
assert spillway.stats().budget_bytes > inside
"""
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


NOT_ACTIVE = """
import torch, spillway
torch.empty(8 << 20, device="cuda")
try:
    spillway.stats()
except RuntimeError as error:
    assert "Spillway is not active: " in str(error), error
else:
    raise AssertionError
"""


@on_a_card
def test_it_does_not_start_after_disable(tmp_path):
    code = f"import spillway\nspillway.disable()\n{NOT_ACTIVE}"
    code = "import torch\n" + code
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET) == ""


@on_a_card
@pytest.mark.parametrize("budget", [BUDGET, f"cuda:{BUDGET}"])
def test_it_does_not_start_where_the_mode_is_off(budget, tmp_path):
    off = {"SPILLWAY_BUDGET": budget, "SPILLWAY_MODE": "off"}
    assert told(tmp_path, 0, NOT_ACTIVE, **off) == ""
    assert told(tmp_path, 0, **off, PYTORCH_ALLOC_CONF="backend:cudaMallocAsync") == ""


@on_a_card
def test_where_the_start_is_refused_the_card_has_no_memory(tmp_path):
    code = """
import threading, torch
def use():
    torch.empty(8 << 20, device="cuda")
thread = threading.Thread(target=use)
thread.start()
thread.join()
try:
    torch.ops.aten.empty.memory_format([8 << 20], device=torch.device("cuda"))
except RuntimeError as error:
    assert "the budget of the graphics card's memory was refused" in str(error), error
else:
    raise AssertionError
"""
    said = told(tmp_path, 1, code, SPILLWAY_BUDGET="4000GiB")
    assert said.count("spillway: error: SPILLWAY_BUDGET (of the graphics card): need") == 1


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
    assert said.count(f"a budget of cpu:{budget}") == times, said


@on_a_card
def test_a_recording_may_begin_within_a_module(tmp_path):
    code = """
import torch
class Moves(torch.nn.Module):
    def forward(self, x):
        return x.to("cuda")
model = Moves()
model.register_forward_hook(lambda *_: None)
model(torch.ones(8 << 20))
"""
    trace = str(tmp_path / "step.json")
    settings = {"SPILLWAY_BUDGET": "100%", "SPILLWAY_MODE": "record", "SPILLWAY_TRACE": trace}
    assert told(tmp_path, 0, code, **settings) == ""


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
    assert "of budget " in said
    assert "pages     page pool" not in said
    assert "2 MiB a page" in said


@on_the_stand_in
def test_the_status_line_is_of_the_card(terminal, tmp_path):
    code = """
import time, torch
tensors = []
while True:
    tensors = [*tensors, torch.empty(8 << 20, device="cuda")][-12:]  # 384 MiB
    time.sleep(0.05)
"""
    one = terminal(
        "run", "--budget", "cuda:320MiB", "--summary", "off", "--",
        sys.executable, *THROUGH[:1], "-c", code,
        SPILLWAY_SPOOL_DIR=str(tmp_path),
    )  # fmt: skip
    one.patience = 200
    shown = re.compile(r"spillway \d+ MiB / 320 MiB  host [\d.]+ .iB  ")
    one.until(lambda: shown.search(one.screen.text()[-1]), "what the card and the host hold")
    assert "disk" not in one.screen.text()[-1]
    one.process.send_signal(signal.SIGTERM)
    assert one.finish() == -signal.SIGTERM


@on_a_card
def test_who_did_not_use_it_leaves_the_statistics_of_who_did(tmp_path):
    stats = tmp_path / "stats.json"
    code = f"import subprocess, sys, torch\nsubprocess.run([sys.executable, '-c', {USES_IT!r}])"
    assert told(tmp_path, 0, code, SPILLWAY_BUDGET=BUDGET, SPILLWAY_STATS=str(stats)) == ""
    assert json.loads(stats.read_text())["peak_live_bytes"] >= 32 << 20


@on_a_card
def test_run_shows_that_the_start_was_refused_in_a_thread(tmp_path, command):
    code = f"""
import threading
thread = threading.Thread(target=lambda: exec({USES_IT!r}))
import torch
thread.start()
thread.join()
"""
    before = [command, "run", "--budget", "cuda:4000GiB", "--"]
    said = told(tmp_path, 1, code, before=before)
    assert "need 3.906 TiB, have" in said
    assert "used no graphics card" not in said
