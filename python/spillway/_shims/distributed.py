# SPDX-License-Identifier: Apache-2.0
"""Buckets and gradients of DistributedDataParallel, which stay in memory.

Its reducer compares their storages through accessors that refuse what has been evicted, and the
collectives read them after their op has returned. Buckets are made when the module is wrapped
and once more after the first step.
"""

import functools

import torch

from spillway import _native


def install() -> None:
    """Wraps the two functions that make buckets. To be called once."""
    if not torch.distributed.is_available():
        return
    _keep_what_is_made_in(torch.nn.parallel.DistributedDataParallel, "__init__")
    _keep_what_is_made_in(torch._C._distributed_c10d.Reducer, "_rebuild_buckets")


def _keep_what_is_made_in(owner: type, name: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        library = _native.loaded()
        if library is None:
            return original(self, *arguments, **keywords)
        library.keep_gradients()
        library.keep_made(True)
        try:
            return original(self, *arguments, **keywords)
        finally:
            library.keep_made(False)

    setattr(owner, name, wrapper)
