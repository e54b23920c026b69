# SPDX-License-Identifier: Apache-2.0
"""The refusals of a recording without memory."""

import pytest
import torch

import spillway
from spillway.recording import machines

from . import networks


def test_a_fused_lstm_is_said_to_be_decomposed():
    assert any("aten::lstm" in note for note in spillway.record_step(networks.lstm).notes)
    assert not any("aten::lstm" in note for note in spillway.record_step(networks.cnn).notes)


def test_a_fused_optimizer_is_recorded_as_its_twin():
    fused = spillway.record_step(lambda: networks.cnn("adamw_fused"))
    assert any("AdamW(fused=True)" in note for note in fused.notes)
    assert fused.bytes_by_role["optimizer_state"] > fused.bytes_by_role["parameter"]


def test_every_recording_says_that_workspace_is_missing():
    recorded = spillway.record_step(networks.cnn)
    assert any("without workspace" in note for note in recorded.notes)
    assert recorded.to_dict()["workspace_known"] is False


def reading_step(read):
    def build():
        x = torch.zeros(4, 4, requires_grad=True)

        def step():
            loss = (x * x).sum()
            loss.backward()
            read(loss)

        return step

    return build


READS = {
    "item": lambda loss: loss.item(),
    "branch": lambda loss: 1 if loss > 0 else 2,
    "nonzero": lambda loss: loss.reshape(1).nonzero(),
    "tolist": lambda loss: loss.tolist(),
}


@pytest.mark.parametrize("read", READS)
def test_depending_on_values_names_operator_and_line(read):
    with pytest.raises(spillway.UserError, match=r"test_refusals.py:\d+: aten::\w+ depends on"):
        spillway.record_step(reading_step(READS[read]))


def test_values_may_be_assumed():
    recorded = spillway.record_step(reading_step(READS["item"]), assume=0.5)
    assert any("assumed to be 0.5" in note for note in recorded.notes)


def test_a_step_on_the_cpu_alone_is_refused():
    x = torch.zeros(4, requires_grad=True)
    with pytest.raises(spillway.UserError, match="no operator on the meta device"):
        spillway.record_step(lambda: x.sum().backward())


def test_autocast_is_noted_though_it_is_closed_when_the_step_ends():
    def network():
        model, x = torch.nn.Linear(8, 8), torch.ones(4, 8)

        def step():
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).sum()
            loss.backward()

        return step

    noted = spillway.record_step(network).notes
    assert sum("autocast does nothing" in note for note in noted) == 1
    assert not any("autocast" in note for note in spillway.record_step(networks.cnn).notes)


def test_an_unknown_machine_is_answered_with_the_nearest():
    with pytest.raises(spillway.UserError, match='Did you mean "h200"'):
        spillway.record_step(networks.cnn, "h20")


def test_a_machine_is_a_file_by_its_ending_or_a_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for word in ("here.json", "./here", "../m", str(tmp_path / "here.machine")):
        with pytest.raises(spillway.UserError, match="no machine file"):
            machines.find(word)
    for word in ("h200.1", "json", "here.jso"):
        with pytest.raises(spillway.UserError, match='no machine "'):
            machines.find(word)
    (tmp_path / "h200").write_text("a file of that name means nothing")
    assert machines.find("h200").name == "h200.json"


def test_machines_may_be_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "mine.json").write_text(machines.find("h200").read_text())
    monkeypatch.setenv("SPILLWAY_MACHINES", str(tmp_path))
    assert machines.find("mine") == tmp_path / "mine.json"
    with pytest.raises(spillway.UserError, match=r'no machine "h200".* There are: mine'):
        machines.find("h200")


def test_an_error_of_the_program_stays_its_own():
    def step():
        raise RuntimeError("the program's own")

    with pytest.raises(RuntimeError, match="the program's own"):
        spillway.record_step(step)


def test_nothing_stays_switched_on_after_an_error():
    with pytest.raises(spillway.UserError):
        spillway.record_step(reading_step(READS["item"]))
    assert torch.zeros(2).device.type == "cpu"
    assert torch.optim.AdamW([torch.zeros(2, requires_grad=True)], fused=True)
