# SPDX-License-Identifier: Apache-2.0
"""The usual ways to write a program so that autograd saves less memory.

`recompute` is torch.utils.checkpoint around each block. `disk` is to a program on the CPU what
`save_on_cpu` is to one on an accelerator: hooks that put each saved tensor into a file and read it
back, as in PyTorch's tutorial on hooks for saved tensors, less what need not go there. A tensor
that two ops save is written twice, as by `save_on_cpu`.
"""

import contextlib
import functools
import tempfile

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

WAYS = ("memory", "recompute", "disk")
# Below this a file costs more than it brings.
LEAST_BYTES = 1 << 20


def saved_of(model, blocks, way):
    """A context for the forward pass in which what is saved for backward lies as wished."""
    if way == "recompute":
        for block in blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    if way != "disk":
        return contextlib.nullcontext()
    files = Files(model.parameters())
    return saved_tensors_hooks(files.write, files.read)


class Files:
    """Saved tensors as files without names in the folder for temporary files (TMPDIR)."""

    def __init__(self, parameters):
        # These are in memory anyway.
        self.stay = {parameter.untyped_storage().data_ptr() for parameter in parameters}

    def write(self, tensor):
        bytes_ = tensor.numel() * tensor.element_size()
        if bytes_ < LEAST_BYTES or tensor.untyped_storage().data_ptr() in self.stay:
            return tensor
        file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the graph
        file.write(memoryview(tensor.detach().contiguous().numpy()))
        return file, tensor.shape, tensor.dtype

    def read(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        file, shape, dtype = packed
        tensor = torch.empty(shape, dtype=dtype)
        file.seek(0)
        file.readinto(memoryview(tensor.numpy()).cast("B"))
        return tensor
