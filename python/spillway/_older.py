# SPDX-License-Identifier: Apache-2.0
"""Tensors that a program made before ``enable()``, taken into managed memory."""

import gc
import sys

import torch

from spillway import _native

_said = ""


def take_in() -> None:
    """Moves what nobody but objects of Python can hold; what is left is said on stderr, once."""
    global _said
    library = _native.load()
    if not library.may_be_older():
        return
    # type(), since proxies answer isinstance() by running code of their own
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    with torch._C.DisableTorchFunctionSubclass():
        addresses = [torch._C.TensorBase._cdata.__get__(tensor) for tensor in tensors]
    left = library.adopt(addresses)
    if left and left != _said:
        print(f"spillway: {left}", file=sys.stderr)
    _said = left or ""
