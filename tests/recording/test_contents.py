# SPDX-License-Identifier: Apache-2.0
"""Storages and ops in a recording."""

import pytest
import torch

import spillway

from . import networks
from .signatures import signature_of


@pytest.fixture(scope="module")
def cnn():
    return spillway.record_step(networks.cnn, "h200").to_dict()


def rows(trace, **wanted):
    return [row for row in trace["storages"] if all(row.get(k) == v for k, v in wanted.items())]


def test_parameters_are_named_and_persistent(cnn):
    weight = next(row for row in cnn["storages"] if row.get("name") == "blocks.1.conv1.weight")
    assert weight["role"] == "parameter"
    assert weight["persistent"] is True
    assert weight["bytes"] == 4 * 16 * 16 * 9
    statistics = next(
        row for row in cnn["storages"] if row.get("name") == "blocks.0.norm1.running_mean"
    )
    assert statistics["role"] == "parameter"


def test_optimizer_state_and_gradients_are_told_apart(cnn):
    momentum = rows(cnn, role="optimizer_state")
    parameters = len(list(networks.Cnn().parameters()))
    assert len(momentum) == parameters
    assert all(row["name"].endswith(".momentum_buffer") for row in momentum)
    # Each gradient twice: the one of the step before, freed at the start, and the new one.
    assert len(rows(cnn, role="gradient")) == 2 * parameters


def test_gradients_continue_as_those_of_the_next_step(cnn):
    continuing = [row for row in cnn["storages"] if "continues" in row]
    assert len(continuing) == len(list(networks.Cnn().parameters()))
    for row in continuing:
        other = cnn["storages"][row["continues"]]
        assert (other["name"], other["bytes"]) == (row["name"], row["bytes"])


def test_ops_have_the_signatures_that_a_run_gives_them(cnn):
    assert all("signature" in op for op in cnn["ops"])
    expected = signature_of("aten::relu", 8 * 16 * 16 * 16)
    assert {op["signature"] for op in cnn["ops"] if op["name"] == "aten::relu"} == {expected}
    # Gradients are added up in place, of which the recording sees an addition.
    sums = {op["signature"] for op in cnn["ops"] if op["name"] == "aten::add_.Tensor"}
    assert signature_of("aten::add_.Tensor", 8 * 16 * 16 * 16, 8 * 16 * 16 * 16) in sums
    again = spillway.record_step(networks.cnn, "h200").to_dict()
    assert [op["signature"] for op in again["ops"]] == [op["signature"] for op in cnn["ops"]]


def test_ops_know_module_and_line(cnn):
    convolution = [op for op in cnn["ops"] if op["name"] == "aten::convolution"]
    assert [op["module"] for op in convolution[:3]] == [
        "stem",
        "blocks.0.conv1",
        "blocks.0.conv2",
    ]
    assert "networks.py:" in convolution[0]["source"]
    backward = [op for op in cnn["ops"] if op["name"] == "aten::convolution_backward"]
    assert [op["module"] for op in backward][-1] == "stem"


def test_inputs_are_told_from_activations(cnn):
    images = rows(cnn, role="input", bytes=4 * 8 * 3 * 16 * 16)
    assert len(images) == 1


def recomputable(trace, name):
    return {op.get("recomputable", False) for op in trace["ops"] if op["name"] == name}


def test_pure_ops_are_recomputable_and_others_are_not(cnn):
    assert recomputable(cnn, "aten::convolution") == {True}
    assert recomputable(cnn, "aten::max_pool2d_with_indices") == {True}
    assert recomputable(cnn, "aten::native_batch_norm") == {False}  # writes running statistics
    assert recomputable(cnn, "aten::bernoulli_.float") == {False}  # random
    assert recomputable(cnn, "aten::relu_") == {False}  # in place


def test_attention_that_drops_out_is_not_recomputable():
    def build(probability):
        def make():
            query = torch.zeros(2, 4, 8, 16, requires_grad=True)

            def step():
                torch.nn.functional.scaled_dot_product_attention(
                    query, query, query, dropout_p=probability
                ).sum().backward()

            return step

        return make

    names = ("aten::native_dropout", "aten::bernoulli_.float")
    trace = spillway.record_step(build(0.5)).to_dict()
    random = [op for op in trace["ops"] if op["name"].startswith("aten::_scaled_dot")]
    random += [op for op in trace["ops"] if op["name"] in names]
    assert random
    assert not any(op.get("recomputable") for op in random)


def test_every_op_takes_what_the_roofline_says(cnn):
    # H200: 4.8 TB/s, convolutions in TensorFloat-32 at 494.5 TFLOP/s, launches of 4 us.
    assert cnn["machine"] == "h200"
    for op in cnn["ops"]:
        seconds = max(op.get("bytes", 0) / 4.8e12, op.get("flop", 0) / 494.5e12, 4e-6)
        assert op["ns"] == pytest.approx(1e9 * seconds, abs=1.5), op


def test_views_leave_no_row():
    def build():
        x = torch.zeros(4, 6, requires_grad=True)
        return lambda: (x.view(6, 4).t()[1:].contiguous() * 2).sum().backward()

    names = [op["name"] for op in spillway.record_step(build).to_dict()["ops"]]
    assert names[:3] == ["aten::clone", "aten::mul.Tensor", "aten::sum"]
