# SPDX-License-Identifier: Apache-2.0
"""The peak of a real step, counted the plain way: what a recording without memory is held to.

Shares nothing with the recorder: a dispatch mode sees every operator below autograd, and weak
references to the storages tell when they are gone.
"""

import weakref

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode


class StorageCount(TorchDispatchMode):
    """Counts the bytes of all storages that operators show, scratch not included."""

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self._known: set[int] = set()

    def look_at(self, *values) -> None:
        for tensor in _pytree.tree_leaves(values):
            if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
                continue
            storage = tensor.untyped_storage()
            if storage._cdata in self._known or storage.nbytes() == 0:
                continue
            self._known.add(storage._cdata)
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._remove, storage._cdata, storage.nbytes())

    def _remove(self, identity: int, size: int) -> None:
        self._known.discard(identity)
        self.live -= size

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.look_at(args, kwargs)
        result = function(*args, **(kwargs or {}))
        self.look_at(result)
        return result


def peak_of_second_step(build) -> int:
    """Bytes at the peak of the second step of a real run on the CPU."""
    torch.manual_seed(0)
    step = build()
    with StorageCount() as count:
        step()
        # Adam counts steps on the host, wherever its parameters are.
        for state in step.optimizer.state.values():
            if "step" in state:
                count.live -= state["step"].untyped_storage().nbytes()
        count.peak = count.live
        step()
    return count.peak
