# SPDX-License-Identifier: Apache-2.0
"""Every optimizer of torch, in every implementation it has, under fuzz and unmanaged: bit for bit.

step 1   gradients made   all leaves   step   all leaves   state read
"""

import inspect

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

pytest.importorskip("expecttest", reason="torch's database of optimizers needs expecttest")

# Those of torch's database, which no test process should import: it sets torch up for itself.
NAMES = (
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam",
)  # fmt: skip
STEPS = 3
FLAGS = (
    {},
    {"foreach": False},
    {"foreach": True},
    {"fused": True},
    {"differentiable": True},
    {"capturable": True},
)


def _database():
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: info for info in optim_db}


def _given(info):
    """(label, keywords) of each way to construct it: torch's own arguments with each flag."""
    known = inspect.signature(info.optim_cls).parameters
    for index, given in enumerate(info.optim_inputs_func(device="cpu")):
        for flags in FLAGS:
            if all(flag in known for flag in flags):
                yield f"{index} {given.desc} {flags}", {**given.kwargs, **flags}


def _train(info, keywords, sparse):
    """Parameters and state after some steps."""
    import torch

    from tests.oracle import opinfo

    parameters = [torch.nn.Parameter(torch.arange(12.0).reshape(6, 2) / 7 - 1) for _ in range(3)]
    optimizer = info.optim_cls(parameters, **keywords)

    def gradients():
        for index, parameter in enumerate(parameters[:2]):  # the third has none
            if sparse:
                indices = torch.tensor([[index, 4, 4]])
                values = torch.ones(3, 2) * (index + 1)
                opinfo.run_unrelated_op()
                parameter.grad = torch.sparse_coo_tensor(indices, values, (6, 2))
            else:
                parameter.grad = parameter.detach() * (index + 1) + 0.5
        opinfo.run_unrelated_op()
        return torch.stack([p.detach().square().sum() for p in parameters]).sum()

    for _ in range(STEPS):
        gradients()
        optimizer.step(gradients if info.step_requires_closure else None)
    state = [optimizer.state[parameter] for parameter in parameters]
    return [p.detach() for p in parameters], state


def _outcomes(name):
    """{label: digests}; where one raised an error, its type."""
    import torch

    from tests.oracle import opinfo

    info, found = _database()[name], {}
    kinds = [
        sparse
        for sparse, has in (
            (False, not info.only_supports_sparse_grads),
            (True, info.supports_sparse or info.only_supports_sparse_grads),
        )
        if has
    ]
    for sparse in kinds:
        for checked in (False, True) if sparse else (False,):
            with torch.sparse.check_sparse_tensor_invariants(checked):
                for label, keywords in _given(info):
                    found[f"{label} sparse={sparse} checked={checked}"] = opinfo._attempt(
                        lambda k=keywords, s=sparse: _train(info, k, s)
                    )
    return found


@in_child(timeout=120)
def test_every_optimizer_of_the_database_is_named():
    assert set(_database()) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@in_child(timeout=300)
def test_steps_are_the_same_under_fuzz(name):
    if name not in _database():  # of a later minor
        return
    expected = _outcomes(name)
    assert any(not digests[0].startswith("raised") for digests in expected.values())
    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    found = _outcomes(name)
    assert {
        label: (digests, expected[label])
        for label, digests in found.items()
        if digests != expected[label]
    } == {}
