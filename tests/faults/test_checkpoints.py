# SPDX-License-Identifier: Apache-2.0
"""Files larger than the budget, and programs started as users start them."""

import json
import subprocess
import sys

from tests.faults.in_child import in_child
from tests.faults.starter import ROOT, activate, clean_environment


def _train_with_checkpoints(name):
    """Saves at every step, loads after the second, and goes on from there."""
    import torch

    from tests.faults.training import Training

    training = Training()
    for _ in range(2):
        training.step()
        state = {"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}
        torch.save(state, name)
    del state
    again = Training(seed=5)
    again.x = training.x
    del training
    loaded = torch.load(name)
    again.model.load_state_dict(loaded["model"])
    again.optimizer.load_state_dict(loaded["optimizer"])
    del loaded
    return again.steps(2).outcome()


@in_child
def test_a_checkpoint_at_every_step():
    """24 MiB each, saved and loaded within half of that."""
    from tests.faults.training import BUDGET, require_budget_held

    expected = _train_with_checkpoints("stock.pt")
    activate(BUDGET=BUDGET)
    assert _train_with_checkpoints("managed.pt") == expected
    require_budget_held()


@in_child
def test_a_file_larger_than_the_budget_is_loaded():
    """By the plain way and mapped; files written with and without a budget are exchangeable."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact
    from tests.faults.training import require_budget_held

    torch.save([filled(value) for value in range(32)], "stock.pt")
    activate(BUDGET="12MiB")
    for source, target, mapped in (("stock.pt", "1.pt", False), ("1.pt", "2.pt", True)):
        held = torch.load(source, mmap=mapped)
        assert len(held) == 32
        assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
        torch.save(held, target)
        del held
    require_budget_held()
    spillway.disable()
    held = torch.load("2.pt")
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))


@in_child
def test_scripted_and_traced_modules_are_saved_while_they_are_away():
    import io
    import warnings

    import torch

    from tests.faults.pressure import MIB, filled, is_intact, push_out
    from tests.faults.training import require_budget_held

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", filled(5))
            self.weight = torch.nn.Parameter(filled(6))

        def forward(self, x):
            return x + self.held + self.weight

    warnings.simplefilter("ignore")  # TorchScript is deprecated
    activate(BUDGET="12MiB")
    for module in (torch.jit.script(Module()), torch.jit.trace(Module(), torch.ones(MIB // 4))):
        for save in (torch.jit.save, lambda module, file: file.write(module.save_to_buffer())):
            push_out()
            file = io.BytesIO()
            save(module, file)
            file.seek(0)
            loaded = torch.jit.load(file)
            assert is_intact(loaded.held, 5) and is_intact(loaded.weight, 6)
    require_budget_held()


@in_child
def test_checkpoints_in_memory_and_by_pickle():
    import io
    import pickle

    import torch

    from tests.faults.pressure import filled, is_intact, push_out
    from tests.faults.training import require_budget_held

    activate(BUDGET="12MiB")
    held = [filled(value) for value in range(16)]
    buffer = io.BytesIO()
    torch.save(held, buffer)
    push_out()
    text = pickle.dumps(held)
    del held
    buffer.seek(0)
    for load in (lambda: torch.load(buffer), lambda: pickle.loads(text)):
        held = load()
        assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
        del held
    require_budget_held()


def _outcome():
    from tests.faults.training import train

    return train(2)


def test_a_module_run_as_users_run_it(starter, tmp_path):
    """`python -m`, a new interpreter, and statistics that its end writes."""
    expected = starter.run(_outcome).require_success().result
    statistics = tmp_path / "statistics.json"
    spool = tmp_path / "spool"
    spool.mkdir()
    variables = {
        "SPILLWAY_BUDGET": "12MiB",
        "SPILLWAY_STATS": str(statistics),
        "SPILLWAY_SPOOL_DIR": str(spool),
        "SPILLWAY_SUMMARY": "on",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.training"],
        cwd=ROOT,
        env=clean_environment() | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == expected
    written = json.loads(statistics.read_text(encoding="utf-8"))
    assert written["peak_device_bytes"] <= 12 << 20
    assert written["evictions"] > 0
    assert "12 MiB" in ended.stderr  # the summary
    assert list(spool.iterdir()) == []
