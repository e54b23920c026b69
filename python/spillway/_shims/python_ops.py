# SPDX-License-Identifier: Apache-2.0
"""Calls of operators from Python that reach a kernel past the dispatcher's front door, shown again.

``RecordFunction`` stands at that door alone. docs/pytorch.md lists the ways around it.
"""

import functools
from collections.abc import Iterator

import torch

from spillway import _native
from spillway._storages import in_frame

# Classes of torch._C, and the method of each that runs a kernel directly.
_KERNEL_CALLS = (
    ("_DispatchOperatorHandle", "redispatch_boxed"),
    ("_SafeKernelFunction", "call_boxed"),
)


def install() -> None:
    """Shows such calls from now on. To be called once per process."""
    _leave_shortcut()
    for owner, name in _KERNEL_CALLS:
        _show_kernel_call(getattr(torch._C, owner, None), name)


def _leave_shortcut() -> None:
    """Sends ``torch.library.custom_op`` through the dispatcher, as torch did before 2.15.

    There an overload whose kernels are Python's looks for its kernel by itself, and calls it.
    """
    overload = torch._ops.OpOverload
    if not hasattr(overload, "_enable_pyobj_dispatch"):
        return
    original = overload._enable_pyobj_dispatch

    @functools.wraps(original)
    def enable(self, enabled=True):
        original(self, False)

    overload._enable_pyobj_dispatch = enable
    for operator in list(torch._library.custom_ops.OPDEFS.values()):
        enable(operator._opoverload)


def _show_kernel_call(owner: type | None, name: str) -> None:
    """One op that may write what it is given.

    Reached by ``torch.library.get_kernel`` and ``OpOverload.redispatch``.
    """
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def call(self, keys, /, *arguments, **keywords):
        if _native.loaded() is None:
            return original(self, keys, *arguments, **keywords)
        given = _tensors((arguments, tuple(keywords.values())))
        with in_frame(b"a kernel called by itself", writes=given):
            return original(self, keys, *arguments, **keywords)

    setattr(owner, name, call)


def _tensors(value) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from _tensors(element)
