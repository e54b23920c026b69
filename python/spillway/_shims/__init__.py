# SPDX-License-Identifier: Apache-2.0
"""Accesses to tensor memory that no operator event shows, made safe, and what PyTorch does at once
made small enough.

A module for each kind of access. Its wrappers bring the storage back before the original runs.
"""

from spillway._shims import (
    arrays,
    compiled,
    distributed,
    lists,
    other_allocators,
    page_locking,
    profiler,
    python_ops,
    rest,
    safetensors,
    saving,
    tensors,
    untyped_storages,
)

_installed = False


def install() -> None:
    """Wraps all of them, once per process. The library has to be loaded."""
    global _installed
    if _installed:
        return
    _installed = True
    untyped_storages.install()
    tensors.install()
    arrays.install()
    saving.install()
    page_locking.install()
    profiler.install()
    distributed.install()
    compiled.install()
    python_ops.install()
    safetensors.install()
    rest.install()
    lists.install()
    other_allocators.install()
