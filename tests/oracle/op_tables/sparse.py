# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors made and used in every layout, with their invariants checked and unchecked.

torch's operator database makes few of them, and checks none: a global switch does, and then
constructors read the indices that they are given.
"""

import torch

from tests.oracle import opinfo


def _coo(values, indices, size):
    return torch.sparse_coo_tensor(indices, values, size)


def _coo_without_size(values, indices, size):
    return torch.sparse_coo_tensor(indices, values)


def _coo_said_to_be_coalesced(values, indices, size):
    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=True)


def _coo_unsafe(values, indices, size):
    return torch.ops.aten._sparse_coo_tensor_unsafe(indices, values, size)


def _with_dims(values, indices, size):
    make = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors
    return make(2, 0, size, indices, values, layout=torch.sparse_coo)


_COO = (_coo, _coo_without_size, _coo_said_to_be_coalesced, _coo_unsafe, _with_dims)

# Constructor, block size of the layout.
_COMPRESSED = {
    torch.sparse_csr: None,
    torch.sparse_csc: None,
    torch.sparse_bsr: (2, 2),
    torch.sparse_bsc: (2, 2),
}


def _dense():
    torch.manual_seed(opinfo.SEED)
    return torch.randn(4, 6) * (torch.arange(24).reshape(4, 6) % 3 == 0)


def _make_coo(make):
    indices = torch.tensor([[0, 1, 3], [1, 0, 5]])
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    opinfo.run_unrelated_op()
    made = make(values, indices, (4, 6))
    weight = torch.ones(4, 6) * 0.5
    opinfo.run_unrelated_op()
    (gradient,) = torch.autograd.grad(made.to_dense(), values, weight[:, : made.shape[1]])
    return made, gradient


def _make_compressed(layout, block, unsafe):
    parts = _dense().to_sparse(layout=layout, blocksize=block)
    rows = layout in (torch.sparse_csr, torch.sparse_bsr)
    outer = (parts.crow_indices() if rows else parts.ccol_indices()).clone()
    inner = (parts.col_indices() if rows else parts.row_indices()).clone()
    values = parts.values().clone()
    unchecked = torch.ops.aten._sparse_compressed_tensor_unsafe
    make = unchecked if unsafe else torch.sparse_compressed_tensor
    opinfo.run_unrelated_op()
    return make(outer, inner, values, (4, 6), layout=layout)


def _convert(source, block_of_source, target, block):
    made = _dense().to_sparse(layout=source, blocksize=block_of_source)
    opinfo.run_unrelated_op()
    return made.to_sparse(layout=target, blocksize=block)


def _use_coo(function, differentiate):
    left = _dense().to_sparse().requires_grad_(differentiate)
    right = torch.randn(6, 5)
    opinfo.run_unrelated_op()
    result = function(left, right)
    if not differentiate:
        return result
    dense = result.to_dense() if result.layout != torch.strided else result
    opinfo.run_unrelated_op()
    return dense, torch.autograd.grad(dense.sum(), left, allow_unused=True)


_USES = {
    "mm": torch.sparse.mm,
    "sum": lambda x, _: torch.sparse.sum(x, 1),
    "add": lambda x, _: x + x,
    "mul": lambda x, _: x * x,
    "coalesce": lambda x, _: x.coalesce(),
    "transpose": lambda x, _: x.t(),
    "index_select": lambda x, _: x.index_select(0, torch.tensor([2, 0])),
    "narrow_copy": lambda x, _: x.narrow_copy(0, 1, 2),
    "cat": lambda x, _: torch.cat([x, x]),
    "softmax": lambda x, _: torch.sparse.softmax(x, 1),
    "to_csr": lambda x, _: x.to_sparse_csr(),
    "mask": lambda x, y: (y @ y.t())[:4].sparse_mask(x.detach().coalesce()),
}


def _embed(kind):
    layer = kind(7, 3, sparse=True)
    indices = torch.tensor([[1, 2, 4], [4, 3, 2]])
    opinfo.run_unrelated_op()
    layer(indices).sum().backward()
    return layer.weight.grad


def _optimize(optimizer, **options):
    """Steps with sparse gradients, each made by the program."""
    weight = torch.nn.Parameter(torch.arange(12.0).reshape(6, 2))
    stepper = optimizer([weight], lr=0.1, **options)
    for step in range(3):
        indices = torch.tensor([[step, 4, 4]])
        values = torch.ones(3, 2) * step
        opinfo.run_unrelated_op()
        weight.grad = torch.sparse_coo_tensor(indices, values, (6, 2))
        stepper.step()
    return weight


def _checked(check, function):
    with torch.sparse.check_sparse_tensor_invariants(check):
        return function()


def attempts(check):
    """{label: function}, each run with invariants checked or not."""
    layouts = {torch.sparse_coo: None, **_COMPRESSED}
    found = {f"coo {make.__name__}": lambda m=make: _make_coo(m) for make in _COO}
    for layout, block in _COMPRESSED.items():
        for unsafe in (False, True):
            label = f"{layout} {'unsafe' if unsafe else 'safe'}"
            found[label] = lambda a=(layout, block, unsafe): _make_compressed(*a)
        for other, other_block in layouts.items():
            pair = (layout, block, other, other_block)
            found[f"{layout} to {other}"] = lambda a=pair: _convert(*a)
    for label, use in _USES.items():
        found[f"use {label}"] = lambda u=use: _use_coo(u, False)
        found[f"train {label}"] = lambda u=use: _use_coo(u, True)
    for kind in (torch.nn.Embedding, torch.nn.EmbeddingBag):
        found[kind.__name__] = lambda k=kind: _embed(k)
    found["SparseAdam"] = lambda: _optimize(torch.optim.SparseAdam)
    found["SGD"] = lambda: _optimize(torch.optim.SGD)
    found["Adagrad"] = lambda: _optimize(torch.optim.Adagrad)
    return {label: lambda f=function: _checked(check, f) for label, function in found.items()}


def cases(case):
    """`case(name, make)` for checked and unchecked invariants."""
    for check in (True, False):
        name = f"own.sparse.{'checked' if check else 'unchecked'}"
        yield case(name, lambda c=check: attempts(c))
