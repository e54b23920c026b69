# SPDX-License-Identifier: Apache-2.0
"""Bringing storages back into memory for code that no operator event shows."""

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterable

import torch

from spillway import _native
from spillway._library import Library


def storage_of(tensor: torch.Tensor | torch.UntypedStorage) -> torch.UntypedStorage | None:
    """The tensor's storage, or None for layouts and wrappers that have none; a storage as it is."""
    if isinstance(tensor, torch.UntypedStorage):
        return tensor
    try:
        return torch._C.TensorBase.untyped_storage(tensor)
    except (RuntimeError, NotImplementedError):
        return None


def is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


# Of these, functions compare addresses that data_ptr() gives and follow none. They ask for those
# of whole models, which need not fit.
_COMPARE = frozenset(
    (
        "spillway",
        "torch",
        "safetensors",
        "huggingface_hub",
        "transformers",
        "accelerate",
        "diffusers",
        "peft",
    )
)


def touch(storage: torch.UntypedStorage, writes: bool) -> None:
    """Brings the storage back for code that is done with it when it returns."""
    library = _native.loaded()
    if library is not None:
        library.touch(storage, writes)


def give_address(storage: torch.UntypedStorage) -> None:
    """Brings the storage back until this thread's next op, for the caller's caller.

    Raises:
        torch.OutOfMemoryError: it does not fit beside those whose addresses were given since.
    """
    library = _native.loaded()
    if library is None:
        return
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "torch.storage":
        frame = frame.f_back  # TypedStorage asks for its caller
    name = frame.f_globals.get("__name__") if frame is not None else None
    compares = str(name).partition(".")[0] in _COMPARE
    if compares:
        library.touch(storage, True)
    else:
        library.give_address(storage)


def in_frame(name: bytes, reads: Iterable[torch.Tensor] = (), writes: Iterable[torch.Tensor] = ()):
    """One op to Spillway: these tensors, and what is made inside, stay until the block ends.

    No reference to a tensor is held meanwhile. `name` has to be one that is never freed: the
    library goes on showing it.

    Raises:
        torch.OutOfMemoryError: they do not fit together.
    """
    library = _native.loaded()
    if library is None:
        return contextlib.nullcontext()
    return _frame_of(library)(name, reads, writes)


@functools.cache
def _frame_of(library: Library) -> type:
    class Frame:
        def __init__(self, name, reads, writes):
            self._arguments = name, reads, writes

        def __enter__(self):
            name, reads, writes = self._arguments
            self._arguments = None
            begun = ctypes.c_int(0)
            try:
                library.begin_frame(name, begun)
                _use(library, reads, False)
                _use(library, writes, True)
            except BaseException:
                if begun.value:
                    library.end_frame(None, None, None)
                raise

        # A function of C, called without `self`: before the first line of one of Python's a signal
        # may be handled, and a KeyboardInterrupt there would leave the frame open.
        __exit__ = library.end_frame

    return Frame


def _use(library: Library, tensors: Iterable[torch.Tensor], written: bool) -> None:
    for tensor in tensors:
        storage = storage_of(tensor)
        if storage is not None:
            library.use(storage, written)


def exported(tensor: torch.Tensor) -> torch.Tensor:
    """A plain tensor over the same memory, which stays until the last holder lets go of it."""
    here = tensor.device.type in ("cpu", "cuda")
    if _native.loaded() is None or not here or storage_of(tensor) is None:
        return tensor
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        return torch.ops.spillway.export_alias(tensor)


def exported_whole(storage: torch.UntypedStorage) -> torch.Tensor:
    """The bytes of a storage, likewise."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        return exported(torch.empty(0, dtype=torch.uint8).set_(storage))
