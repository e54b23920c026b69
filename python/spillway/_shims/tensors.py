# SPDX-License-Identifier: Apache-2.0
"""Methods of Tensor, and functions of torch, that read or write a tensor's memory by themselves.

On a CPU a storage keeps its address for life, so ``data_ptr()`` holds the tensor until the thread's
next op alone.
"""

import functools

import torch

from spillway import _native
from spillway._storages import give_address, in_frame, is_tensor, storage_of, touch

# Methods of Tensor that read or write memory directly, and whether they write.
_METHODS = {
    "__deepcopy__": False,
    "__reduce_ex__": False,
    "is_pinned": False,
    "is_shared": False,
    "set_": True,
    "share_memory_": True,
}

# Methods of Tensor that reach every element through pointers while ops run, and whether they write.
_ELEMENT_METHODS = {"apply_": True, "map_": True, "map2_": True, "tolist": False}


def install() -> None:
    """Wraps them. To be called once."""
    for name, writes in _METHODS.items():
        if hasattr(torch.Tensor, name):
            _wrap_method(name, writes)
    _wrap_addresses()
    for name, writes in _ELEMENT_METHODS.items():
        _wrap_element_method(name, writes)
    _wrap_swapping()
    _wrap_generator_state()


def _wrap_method(name: str, writes: bool) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        storage = storage_of(self)
        if storage is not None:
            touch(storage, writes)
        return original(self, *arguments, **keywords)

    setattr(torch.Tensor, name, wrapper)


def _wrap_addresses() -> None:
    """Functions that hand out an address: written at any time from then on."""
    for owner, name in (
        (torch.UntypedStorage, "data_ptr"),
        (torch.Tensor, "data_ptr"),
        (torch.Tensor, "const_data_ptr"),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _wrapped_address(original))


def _wrapped_address(original):
    @functools.wraps(original)
    def data_ptr(self):
        storage = storage_of(self)
        if storage is not None:
            give_address(storage)
        return original(self)

    return data_ptr


def _wrap_element_method(name: str, writes: bool) -> None:
    original = getattr(torch.Tensor, name, None)
    if original is None:
        return
    frame = f"Tensor.{name}".encode()

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        others = filter(is_tensor, (*arguments, *keywords.values()))
        reads, written = (others, [self]) if writes else ([self, *others], [])
        with in_frame(frame, reads, written):
            return original(self, *arguments, **keywords)

    setattr(torch.Tensor, name, wrapper)


def _wrap_swapping() -> None:
    """``torch.utils.swap_tensors`` wants no weak reference to either tensor, and we hold one to
    the tensor that an op made.
    """
    original = torch._C._swap_tensor_impl

    @functools.wraps(original)
    def swap(first, second):
        library = _native.loaded()
        for tensor in (first, second):
            storage = storage_of(tensor)
            if library is not None and storage is not None:
                library.release_tensor(storage)
        return original(first, second)

    torch._C._swap_tensor_impl = swap


def _wrap_generator_state() -> None:
    """Generators read a state tensor directly, and their own methods cannot be replaced."""
    original = torch.random.set_rng_state

    @functools.wraps(original)
    def set_rng_state(new_state):
        storage = storage_of(new_state)
        if storage is not None:
            touch(storage, False)
        original(new_state)

    torch.random.set_rng_state = set_rng_state
    torch.set_rng_state = set_rng_state
