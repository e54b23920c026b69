# SPDX-License-Identifier: Apache-2.0
"""A recording without memory against a real step of the same program."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import spillway
from spillway.recording.step import StepRecorder

from . import naive_peak, networks

PROGRAMS = [
    pytest.param(networks.cnn, "sgd", id="cnn-sgd"),
    pytest.param(networks.cnn, "adam_foreach", id="cnn-adam-foreach"),
    pytest.param(networks.transformer, "adam", id="transformer-adam"),
    pytest.param(networks.transformer, "adam_foreach", id="transformer-adam-foreach"),
]


def record_with_data(build):
    """The second call of a step on the CPU, by the same recorder."""
    session = StepRecorder(None)
    session.start(with_data=True)
    try:
        step = build()
        step()
        session.begin_step()
        step()
        return session.take(None)
    finally:
        session.stop()


@pytest.mark.parametrize(("build", "optimizer"), PROGRAMS)
def test_the_peak_is_that_of_a_real_step(build, optimizer):
    recorded = spillway.record_step(lambda: build(optimizer))
    assert recorded.peak_bytes == naive_peak.peak_of_second_step(lambda: build(optimizer))


@pytest.mark.parametrize("build", [networks.cnn, networks.transformer])
def test_every_row_is_that_of_a_real_step(build):
    without = spillway.record_step(lambda: build("sgd")).to_dict()
    real = record_with_data(lambda: build("sgd")).to_dict()
    assert [op["name"] for op in without["ops"]] == [op["name"] for op in real["ops"]]
    for ours, theirs in zip(without["ops"], real["ops"]):
        for column in ("flop", "bytes", "creates", "reads", "writes", "frees", "recomputable"):
            assert ours.get(column) == theirs.get(column), (column, ours, theirs)
    assert without["storages"] == real["storages"]


@pytest.mark.parametrize("optimizer", ["adam", "adam_foreach"])
def test_ops_of_adam_are_those_of_a_real_step(optimizer):
    """Its step counts, 4 bytes each, lie on the host: the real step on the CPU has them too."""

    def names(trace):
        counts = {
            row["id"] for row in trace["storages"] if row.get("name", "").endswith(".step")
        } | {row["id"] for row in trace["storages"] if row["bytes"] <= 8}
        return [
            op["name"]
            for op in trace["ops"]
            if not counts.issuperset(op.get("writes", []) + op.get("creates", []))
        ]

    without = spillway.record_step(lambda: networks.transformer(optimizer)).to_dict()
    real = record_with_data(lambda: networks.transformer(optimizer)).to_dict()
    assert names(without) == names(real)


@pytest.mark.parametrize("build", [networks.cnn, networks.transformer])
def test_flop_are_those_of_torch(build):
    recorded = spillway.record_step(build)
    with spillway.without_memory():
        step = build()
        step()
        with FlopCounterMode(display=False) as counter:
            step()
    assert recorded.flop == counter.get_total_flops()


def test_two_convolutions_are_counted_by_hand():
    # 2 x weights x positions x samples, and twice that backward (no gradient for the images).
    def build():
        layer = torch.nn.Conv2d(3, 5, 3, padding=1, bias=False)
        images = torch.zeros(2, 3, 8, 8)
        return lambda: layer(images).sum().backward()

    one = 2 * (3 * 5 * 3 * 3) * (8 * 8) * 2
    assert spillway.record_step(build).flop == 2 * one
