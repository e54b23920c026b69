# SPDX-License-Identifier: Apache-2.0
"""Whole programs on the meta device, as `spillway record --without-memory` starts them."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import torch
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.utils.data.TensorDataset(torch.zeros(32, 20), torch.zeros(32, dtype=torch.long))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(20, {width}), torch.nn.ReLU(), torch.nn.Linear({width}, 5)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {after}
    print("the end")
"""


def run(tmp_path, after="pass", width=50, **variables):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM).format(after=after, width=width))
    trace = tmp_path / "step.json"
    environment = {**os.environ, "SPILLWAY_WITHOUT_MEMORY": str(trace), **variables}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    return done, trace


def test_the_second_step_is_recorded_and_ends_the_program(tmp_path):
    done, trace = run(tmp_path, SPILLWAY_MACHINE="h200")
    assert done.returncode == 0, done.stderr
    assert "the end" not in done.stdout
    assert "without workspace" in done.stderr
    recorded = json.loads(trace.read_text())
    assert recorded["machine"] == "h200"
    products = [op["name"] for op in recorded["ops"] if op["name"] == "aten::addmm"]
    assert len(products) == 2
    assert any(op.get("source", "").startswith("train.py:") for op in recorded["ops"])


def test_a_model_larger_than_memory_is_recorded(tmp_path):
    done, trace = run(tmp_path, width=20_000_000_000)
    assert done.returncode == 0, done.stderr
    sizes = {row["name"]: row["bytes"] for row in json.loads(trace.read_text())["storages"]
             if row.get("name")}  # fmt: skip
    assert sizes["0.weight"] == 4 * 20 * 20_000_000_000


def test_reading_a_value_names_the_line(tmp_path):
    done, trace = run(tmp_path, after="print(loss.item())")
    assert done.returncode != 0
    assert "train.py:16: aten::_local_scalar_dense depends on values" in done.stderr
    assert not trace.exists()


def test_values_that_are_only_shown_can_be_assumed(tmp_path):
    done, trace = run(tmp_path, after="print('loss', loss.item())", SPILLWAY_ASSUME="0")
    assert done.returncode == 0, done.stderr
    assert "loss 0.0" in done.stdout
    assert trace.exists()


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"SPILLWAY_MACHINE": "h2000"}, 'Did you mean "h200"'),
        ({"SPILLWAY_ASSUME": "some"}, '"some" is no number'),
    ],
)
def test_wrong_settings_end_the_program_with_status_2(tmp_path, variables, told):
    done, _ = run(tmp_path, **variables)
    assert done.returncode == 2
    assert told in done.stderr


def test_the_command_records_what_can_be_planned(tmp_path):
    command = os.environ.get("COMMAND_UNDER_TEST") or shutil.which("spillway")
    if not command:
        pytest.skip("no spillway command: build it, or name it in COMMAND_UNDER_TEST")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM).format(after="pass", width=100_000))
    trace = tmp_path / "step.json.zst"

    def spillway(*words):
        done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done

    words = ("record", "--without-memory", "-o", str(trace), "--machine", "m40")
    done = spillway(*words, "--", sys.executable, str(script))
    assert "spillway: recorded" in done.stderr
    planned = json.loads(spillway("plan", str(trace), "--machine", "m40", "--json").stdout)
    assert planned["feasible"]
    stats = json.loads(spillway("trace", "stats", str(trace), "--json").stdout)
    assert stats["timed"]  # for m40, by its roofline
    assert stats["roles"]["optimizer_state"]["bytes"] >= 2 * stats["roles"]["parameter"]["bytes"]
