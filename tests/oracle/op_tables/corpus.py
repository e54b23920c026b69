# SPDX-License-Identifier: Apache-2.0
"""The cases that are run to learn about operators: torch's own operator and module databases, and
a few
modules as programs use them that those do not have.
"""

import copy
from dataclasses import dataclass

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from tests.oracle import opinfo
from tests.oracle.op_tables import sparse


@dataclass(frozen=True)
class Case:
    """One operator or module. `make()` gives {label: function}, each function run from one seed."""

    name: str
    make: object

    def compute(self):
        """{label: digests}, errors included: see opinfo._attempt."""
        try:
            attempts = self.make()
        except Exception as error:  # its samples may need what this machine lacks
            return {"samples": [f"raised {type(error).__name__}"]}
        return {label: opinfo._attempt(function) for label, function in attempts.items()}


def _operator_attempts(op, dtype):
    attempts = {}
    for index, sample in enumerate(opinfo._samples(op, dtype)):
        attempts[f"backward {index}"] = lambda s=sample: opinfo._forward_backward(op, s)
        if op.inplace_variant is not None and not sample.broadcasts_input:
            attempts[f"in-place {index}"] = lambda s=sample: opinfo._in_place(op.inplace_variant, s)
        if op.supports_out:
            attempts[f"out {index}"] = lambda s=sample: opinfo._out(op, s)
    return attempts


def _train(make, inputs, keywords):
    """Forward, backward and all gradients of a fresh module, in training and in evaluation."""
    results = []
    for training in (True, False):
        module = make().train(training)
        inputs_now, keywords_now = copy.deepcopy(inputs), copy.deepcopy(keywords)
        opinfo.run_unrelated_op()
        outputs = module(*inputs_now, **keywords_now)
        leaves = [t for t in opinfo._tensors(outputs) if t.requires_grad]
        if leaves:
            seeds = [torch.ones_like(t) * 0.5 for t in leaves]
            opinfo.run_unrelated_op()
            torch.autograd.backward(leaves, seeds)
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        results.append((outputs, gradients, list(module.buffers())))
    return results


def _module_attempts(info):
    opinfo._reset()
    attempts = {}
    made = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=True
    )
    for index, given in enumerate(made):
        if given.forward_input is None:
            continue
        constructor, forward = given.constructor_input, given.forward_input

        def make(constructor=constructor):
            opinfo._reset()
            return info.module_cls(*constructor.args, **constructor.kwargs)

        attempts[f"module {index}"] = lambda m=make, f=forward: _train(m, f.args, f.kwargs)
    return attempts


class _Packed(torch.nn.Module):
    """A recurrent network over sequences of several lengths."""

    def __init__(self, kind, **options):
        super().__init__()
        self.inner = kind(5, 6, **options)

    def forward(self, x):
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            x, torch.tensor([4, 7, 2]), enforce_sorted=False, batch_first=True
        )
        output, state = self.inner(packed)
        return torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0], state


class _Classified(torch.nn.Module):
    """A loss as classifiers use it."""

    def __init__(self, **options):
        super().__init__()
        self.layer = torch.nn.Linear(5, 6)
        self.loss = torch.nn.CrossEntropyLoss(**options)

    def forward(self, x):
        return self.loss(self.layer(x).flatten(0, 1), torch.arange(x[..., 0].numel()) % 6)


def _updated_statistics():
    """An operator that neither database has."""
    x, mean, variance = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)
    return torch.batch_norm_update_stats(x, mean, variance, 0.1), mean, variance


def _quantiles():
    """Quantiles of a hundred numbers take another way through composites than a database's few."""

    def of(function):
        x, levels = torch.arange(100.0), torch.tensor([0.1, 0.5])
        opinfo.run_unrelated_op()
        return function(x, levels)

    return {f.__name__: lambda f=f: of(f) for f in (torch.quantile, torch.nanquantile)}


def _own():
    def case(label, make, *shape):
        def attempts():
            opinfo._reset()
            x = torch.randn(*shape)
            return {label: lambda: _train(make, (x.requires_grad_(),), {})}

        return Case(f"own.{label}", attempts)

    layers = {"num_layers": 3, "batch_first": True}
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        for bidirectional in (False, True):
            options = {**layers, "bidirectional": bidirectional, "dropout": 0.2}
            label = f"{kind.__name__}{'.bidirectional' if bidirectional else ''}"
            yield case(label, lambda k=kind, o=options: k(5, 6, **o), 3, 7, 5)
            yield case(f"{label}.packed", lambda k=kind, o=options: _Packed(k, **o), 3, 7, 5)
    yield case("LSTM.projected", lambda: torch.nn.LSTM(5, 6, proj_size=3, **layers), 3, 7, 5)
    yield case("cross_entropy", _Classified, 3, 7, 5)
    yield case("cross_entropy.smooth", lambda: _Classified(label_smoothing=0.1), 3, 7, 5)
    encoder = torch.nn.TransformerEncoderLayer
    yield case("encoder", lambda: encoder(8, 2, 16, batch_first=True), 3, 7, 8)
    yield Case("own.batch_norm_update_stats", lambda: {"stats": _updated_statistics})
    yield Case("own.quantiles", _quantiles)
    yield case("conv.reflect", lambda: torch.nn.Conv2d(3, 4, 3, padding_mode="reflect"), 2, 3, 9, 9)
    yield from sparse.cases(Case)


def cases():
    """All cases, in an order that is the same every time."""
    found = []
    for op in op_db:
        supported = op.supported_dtypes("cpu")
        dtype = next((d for d in (torch.float32, torch.int64) if d in supported), None)
        if dtype is not None:
            name = opinfo.name_of(op, dtype)
            found.append(Case(name, lambda o=op, d=dtype: _operator_attempts(o, d)))
    for info in module_db:
        found.append(Case(info.module_cls.__name__, lambda i=info: _module_attempts(i)))
    return [*_own(), *found]
