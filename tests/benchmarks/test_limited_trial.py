# SPDX-License-Identifier: Apache-2.0
"""Trials within a limit, whose limit is here how far a small program goes by itself."""

import contextlib
import importlib
from types import SimpleNamespace

PROGRAM = """
import json, os, sys
value, steps = map(int, sys.argv[1:3])
sys.exit(1) if value > int(os.environ["LARGEST"]) else None
loss = value + int(os.environ["ERROR"])
if "calm" not in sys.argv:
    loss += int(os.environ["CHANCE"]) * os.getpid()
for step in range(steps):
    print(json.dumps({"step": step, "seconds": step / 7, "loss": loss}))
"""


def trial(tmp_path, monkeypatch, *, largest, error=0, chance=0):
    monkeypatch.setenv("ERROR", "0")
    monkeypatch.setenv("CHANCE", str(chance))
    monkeypatch.setenv("LARGEST", "1000")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    module = importlib.import_module("limited_trial")
    stock = importlib.import_module("paired_runs").stock_environment
    return module.LimitedTrial(
        lambda value, steps: [script, value, steps],
        lambda: contextlib.nullcontext(SimpleNamespace(enter=None)),
        stock(LARGEST=str(largest), ERROR=str(error)),
    )


def test_the_largest_is_what_still_trains(tmp_path, monkeypatch, capsys):
    found = trial(tmp_path, monkeypatch, largest=5).largest(2)
    assert (found.value, found.capped) == (5, False)
    assert "8: the worker ended with exit status 1" in capsys.readouterr().err


def test_times_are_not_compared_and_losses_are(tmp_path, monkeypatch):
    assert trial(tmp_path, monkeypatch, largest=9).equals_stock(3, 2, []).equal
    assert trial(tmp_path, monkeypatch, largest=9, error=1).equals_stock(3, 2, []).equal is False


def test_where_stock_differs_from_itself_nothing_can_be_compared(tmp_path, monkeypatch):
    wild = trial(tmp_path, monkeypatch, largest=9, chance=1)
    assert wild.equals_stock(3, 2, []).equal is None


def test_stock_may_be_given_arguments_to_repeat_itself(tmp_path, monkeypatch):
    uncertain = trial(tmp_path, monkeypatch, largest=9, chance=1)
    uncertain.variables["CHANCE"] = "0"
    assert uncertain.equals_stock(3, 2, ["calm"]).equal


def test_a_cost_is_a_ratio_of_steps_in_turns(tmp_path, monkeypatch):
    cost = trial(tmp_path, monkeypatch, largest=9).cost(3, 2)
    assert cost.count == 2
    assert cost.low > 0
