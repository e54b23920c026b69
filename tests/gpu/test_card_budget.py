# SPDX-License-Identifier: Apache-2.0
"""A budget of a graphics card's memory: the same bits within it, and torch's own functions as ever.

On a card where there is one (`make gpu`), else on the stand-in for one.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.gpu import card_training
from tests.gpu.processes import (
    HAS_CARD,
    USES_IT,
    on_a_card,
    on_the_stand_in,
    on_two_cards,
    run,
    told,
)
from tests.oracle.turns import of_the_day

# On the stand-in one of them in turn.
NETWORKS = list(card_training.NETWORKS) if HAS_CARD else of_the_day(card_training.NETWORKS, 1)
OPTIMIZERS = ["lists", "fused", "momentum"]
OPTIMIZERS = OPTIMIZERS if HAS_CARD else of_the_day(OPTIMIZERS, 1)
# The stand-in's second card reaches the first's memory or not; what real ones do they decide.
CARDS = ["as they are"] if HAS_CARD else ["apart", "peers"]
WIDE = {"budget": "cuda:90%", "host_budget": "2GiB"}
MIB = 1 << 20
# torch's figure adds its own pool's peak, which need not have been at the same time.
BESIDE = 8 * MIB


@pytest.fixture(scope="module")
def unmanaged(tmp_path_factory):
    """What each network computes without a budget, and its peak on the card."""
    folder = tmp_path_factory.mktemp("unmanaged")
    return {name: json.loads(run(folder, "tests.gpu.card_training", name)[0]) for name in NETWORKS}


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """What each network's process holds on the card besides tensors, which a budget covers, too."""
    folder = tmp_path_factory.mktemp("beside")
    whole = {"mode": "fuzz", "budget": "cuda:90%", "host_budget": "1GiB"}
    return {
        name: run(folder, "tests.gpu.card_training", name, **whole)[1]["unmanaged_bytes"]
        for name in NETWORKS
    }


@on_a_card
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "enforce", "host_budget": "1GiB"},
        {"mode": "enforce", "host_budget": "16MiB"},  # the rest goes to the disk
        {"mode": "verify", "host_budget": "1GiB"},
        {"mode": "fuzz", "host_budget": "1GiB"},
    ],
    ids=["host", "disk", "verify", "fuzz"],
)
def test_half_of_the_peak_gives_the_same_bits(name, settings, unmanaged, beside, tmp_path):
    expected = unmanaged[name]
    half = expected["peak"] // 2
    budget = half + beside[name]
    printed, stats = run(
        tmp_path, "tests.gpu.card_training", name, budget=f"cuda:{budget}", **settings
    )
    found = json.loads(printed)
    assert found["losses"] == expected["losses"]
    assert found["digest"] == expected["digest"]
    assert stats["evicted_bytes"] > 0
    assert stats["fetched_bytes"] > 0
    assert 0 < stats["mapping_ns"] <= stats["elapsed_ns"]
    if settings["mode"] != "fuzz":
        assert stats["peak_device_bytes"] <= budget
        assert stats["overshoot_bytes"] == 0
        # A card's libraries are loaded while it trains, and leave room for tensors until then.
        assert found["peak"] <= (budget if HAS_CARD else half) + BESIDE
    assert stats["undeclared_writes"] == 0


@on_a_card
def test_a_budget_that_names_no_device_is_of_the_card(unmanaged, beside, tmp_path):
    name = NETWORKS[0]
    half = unmanaged[name]["peak"] // 2
    printed, stats = run(
        tmp_path,
        "tests.gpu.card_training",
        name,
        budget=half + beside[name],
        host_budget="1GiB",
    )
    found = json.loads(printed)
    assert found["losses"] == unmanaged[name]["losses"]
    assert stats["evicted_bytes"] > 0
    assert stats["overshoot_bytes"] == 0
    # PyTorch's own figure of the card.
    assert found["peak"] <= half + beside[name] + BESIDE


STARTED_WITHOUT = """
import spillway, torch
spillway.enable("400MiB")
assert spillway.stats().budget_bytes == 400 << 20
spillway.enable("cpu:300MiB")  # the same device
spillway.enable(mode="record")
"""


@on_a_card
def test_a_process_that_holds_the_cpus_memory_goes_on_with_it_and_says_so(tmp_path):
    said = told(tmp_path, 0, STARTED_WITHOUT)
    assert said.count("the budget is of the CPU's memory, since") == 1, said


@on_a_card
def test_a_process_that_holds_a_cards_memory_goes_on_with_it(tmp_path):
    again = 'import spillway, torch; spillway.enable("300MiB"); spillway.enable(mode="off")'
    assert told(tmp_path, 0, again, SPILLWAY_BUDGET="400MiB") == ""


@on_a_card
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_of_lists_need_not_have_all_states_at_once(optimizer, tmp_path):
    """On a card they are the default: their ops would need more than half of the peak."""
    program = ["tests.gpu.card_training", "perceptron", optimizer]
    expected = json.loads(run(tmp_path, *program)[0])
    wide = run(tmp_path, *program, budget="cuda:90%", host_budget="1GiB")[1]
    budget = expected["peak"] // 2 + wide["unmanaged_bytes"]
    printed, stats = run(tmp_path, *program, budget=f"cuda:{budget}", host_budget="1GiB")
    found = json.loads(printed)
    assert found["losses"] == expected["losses"]
    assert found["digest"] == expected["digest"]
    assert stats["evicted_bytes"] > 0
    assert stats["overshoot_bytes"] == 0


@on_a_card
def test_functions_for_memory_serve_as_ever(tmp_path):
    run(tmp_path, "tests.gpu.card_memory", **WIDE)


@on_a_card
def test_the_hook_rests_while_a_program_fits(tmp_path):
    run(tmp_path, "tests.gpu.card_rest", **WIDE)


@on_a_card
@pytest.mark.parametrize("mode", ["enforce", "fuzz"])
def test_graphs_are_captured_with_what_has_left(mode, tmp_path):
    run(tmp_path, "tests.gpu.card_graphs", mode=mode, **WIDE)


@on_two_cards
@pytest.mark.parametrize("cards", CARDS)
def test_tensors_are_copied_to_and_from_another_card(cards, tmp_path, monkeypatch):
    monkeypatch.setenv("STAND_IN_CARDS", cards)
    run(tmp_path, "tests.gpu.card_peers", **WIDE)


@on_a_card
def test_another_allocator_than_torchs_is_refused(tmp_path):
    said = told(
        tmp_path, 2, SPILLWAY_BUDGET="cuda:400MiB", PYTORCH_ALLOC_CONF="backend:cudaMallocAsync"
    )
    assert 'unset "backend" in PYTORCH_ALLOC_CONF' in said


@on_the_stand_in
def test_a_card_that_cannot_map_memory_is_refused(tmp_path):
    said = told(tmp_path, 2, USES_IT, SPILLWAY_BUDGET="cuda:400MiB", STAND_IN_CUDA="no-mapping")
    assert "cannot map memory at addresses of the program's choice" in said
    assert "SPILLWAY_BUDGET=cpu:8GiB" in said


@on_the_stand_in
def test_what_other_cards_hold_is_said_to_be_unmanaged(tmp_path):
    said = told(tmp_path, 0, USES_IT, SPILLWAY_BUDGET="cuda:400MiB", STAND_IN_CARDS="apart")
    assert "the budget is of the first graphics card alone, and 1 more is to be seen" in said


@pytest.mark.skipif(HAS_CARD, reason="there is a card here")
def test_a_budget_without_a_card_is_refused():
    environment = os.environ | {"SPILLWAY_BUDGET": "cuda:1GiB"}
    child = subprocess.run(
        [sys.executable, "-c", "import torch"], env=environment, capture_output=True, text=True
    )
    assert child.returncode == 2
    assert child.stderr.count("\n") == 1
    assert "driver" in child.stderr
    assert "SPILLWAY_BUDGET=cpu:8GiB" in child.stderr
