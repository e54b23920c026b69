# SPDX-License-Identifier: Apache-2.0
"""Arrays of numpy and capsules of DLPack over a tensor's memory, which stays while they live."""

import functools

import torch

from spillway import _native
from spillway._storages import exported, exported_whole, storage_of, touch


def install() -> None:
    """Wraps the ways to both. To be called once."""
    _wrap_numpy()
    _wrap_dlpack()


def _wrap_numpy() -> None:
    original = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self, *arguments, **keywords):
        storage = storage_of(self)
        if _native.loaded() is None or storage is None or self.device.type != "cpu":
            return original(self, *arguments, **keywords)
        if type(self) in (torch.Tensor, torch.nn.Parameter) and not self.requires_grad:
            return original(exported(self), *arguments, **keywords)
        # Subclasses answer in their own way, and what requires a gradient says so.
        touch(storage, True)
        return _held_array(original(self, *arguments, **keywords), storage, original)

    torch.Tensor.numpy = numpy


def _held_array(array, storage: torch.UntypedStorage, to_numpy):
    """The array, over an export of the storage where it lies in the storage's memory."""
    import numpy

    if type(array) is not numpy.ndarray:
        return array
    offset = array.__array_interface__["data"][0] - storage.data_ptr()
    if not 0 <= offset < storage.nbytes():
        return array  # a copy
    whole = to_numpy(exported_whole(storage))
    held = numpy.ndarray(array.shape, array.dtype, whole, offset, array.strides)
    held.flags.writeable = array.flags.writeable
    return held


def _wrap_dlpack() -> None:
    """Both ways to a capsule, `Tensor.__dlpack__` among their callers."""
    for name in ("_to_dlpack", "_to_dlpack_versioned"):
        original = getattr(torch._C, name, None)
        if original is not None:
            wrapper = _wrapped_dlpack(original)
            setattr(torch._C, name, wrapper)
            for module in (torch, torch.utils.dlpack):
                if getattr(module, "to_dlpack", None) is original:
                    module.to_dlpack = wrapper
    # Through this table consumers take the memory past every method; without it they call
    # `__dlpack__`.
    for owner in (torch.Tensor, getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)):
        if owner is not None and "__dlpack_c_exchange_api__" in vars(owner):
            del owner.__dlpack_c_exchange_api__


def _wrapped_dlpack(original):
    @functools.wraps(original)
    def to_dlpack(tensor, *arguments, **keywords):
        return original(exported(tensor), *arguments, **keywords)

    return to_dlpack
