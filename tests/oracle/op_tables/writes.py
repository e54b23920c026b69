# SPDX-License-Identifier: Apache-2.0
"""Finds operators that write arguments which their schema does not mark."""

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def _parts(tensor):
    """The tensors that hold a tensor's bytes."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def _storages(value):
    """{address of the storage object: storage} of everything in an argument on the CPU."""
    found = {}
    for tensor in pytree.tree_leaves(value):
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
            for part in _parts(tensor):
                if part._is_zerotensor():  # sizes without memory
                    continue
                storage = part.untyped_storage()
                if storage.nbytes() != 0:
                    found[storage._cdata] = storage
    return found


def _bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8).set_(storage).clone()


class WriteAudit(TorchDispatchMode):
    """Within: every leaf operator's inputs are compared before and after it.

    `found` is {full operator name: arguments, bit i for argument i}; `seen` all names that ran.
    """

    def __init__(self):
        super().__init__()
        self.found = {}
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.seen.add(func.name())
        declared, watched = {}, {}
        for index, argument in enumerate(func._schema.arguments):
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            storages = _storages(value)
            if argument.alias_info is not None and argument.alias_info.is_write:
                declared |= storages
                continue
            for key, storage in storages.items():
                watched.setdefault(key, (storage, _bytes_of(storage), set()))[2].add(index)
        result = func(*args, **kwargs)
        for key, (storage, before, indexes) in watched.items():
            if key in declared or storage.nbytes() != before.numel():
                continue
            if not torch.equal(_bytes_of(storage), before):
                bits = sum(1 << index for index in indexes)
                self.found[func.name()] = self.found.get(func.name(), 0) | bits
        return result


def run(cases, progress):
    """Returns the writes that the cases show; `progress(name)` is called before each."""
    audit = WriteAudit()
    for case in cases:
        progress(case.name)
        with audit:
            case.compute()
    return {"writes": audit.found, "seen": sorted(audit.seen)}
