# SPDX-License-Identifier: Apache-2.0
"""Sends everything a program makes to the meta device, whatever device it names."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

_MOVES = frozenset(
    getattr(torch.Tensor, name) for name in ("cuda", "cpu", "xpu") if hasattr(torch.Tensor, name)
)
_STAYS = frozenset((torch.Tensor.pin_memory,))
# Loaders draw indices on the host and read them; optimizers count steps there.
_ON_HOST = ("torch.utils.data", "torch.optim")
_VALUES = {
    torch.Tensor.item: None,
    torch.Tensor.__float__: float,
    torch.Tensor.__int__: int,
    torch.Tensor.__bool__: bool,
}


class OnMeta(TorchFunctionMode):
    """Makes tensors on meta, and moves there what is moved anywhere.

    Args:
        assume: what reading a value of a tensor yields; None lets torch refuse it.
        note: receives in words what was done differently from what the program says.
    """

    def __init__(self, assume: float | None, note: Callable[[str], None]) -> None:
        super().__init__()
        self._assume = assume
        self._note = note
        self._constructors = _device_constructors()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self._constructors:
            return self._construct(func, args, kwargs)
        if func is torch.Tensor.to:
            args, kwargs = _to_meta(args, kwargs)
        elif func in _MOVES:
            return args[0].to("meta")
        elif func in _STAYS and args[0].is_meta:
            return args[0]
        elif func in _VALUES and self._assume is not None and args[0].is_meta:
            return self._value(func, args[0])
        elif kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "meta"}
        return func(*args, **kwargs)

    def _construct(self, func, args, kwargs):
        caller = sys._getframe(2).f_globals.get("__name__", "")
        if caller.startswith(_ON_HOST):
            return func(*args, **kwargs)
        return func(*args, **{**kwargs, "device": "meta"})

    def _value(self, func, tensor):
        self._note(f"values that the program reads are assumed to be {self._assume:g}")
        kind = _VALUES[func]
        if kind is None:
            kind = float if tensor.is_floating_point() else int
            kind = bool if tensor.dtype == torch.bool else kind
        return kind(self._assume)


def _to_meta(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    def is_device(value: Any) -> bool:
        return isinstance(value, (str, torch.device, int)) and not isinstance(value, bool)

    tensor, *rest = args
    moved = [
        "meta" if position == 0 and is_device(value) else value
        for position, value in enumerate(rest)
    ]
    # to(other) takes other's device too, and other may be on the host.
    if moved and isinstance(moved[0], torch.Tensor):
        moved[:1] = ["meta", moved[0].dtype]
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": "meta"}
    return (tensor, *moved), kwargs


@contextlib.contextmanager
def unfused_optimizers(note: Callable[[str], None]) -> Iterator[None]:
    """Optimizers asked for `fused=True`, which meta has no kernels for, run one by one instead."""
    originals = []
    for owner in vars(torch.optim).values():
        if not (inspect.isclass(owner) and issubclass(owner, torch.optim.Optimizer)):
            continue
        if "__init__" in vars(owner) and "fused" in inspect.signature(owner).parameters:
            originals.append((owner, owner.__init__))
            owner.__init__ = _without_fused(owner, owner.__init__, note)
    try:
        yield
    finally:
        for owner, original in originals:
            owner.__init__ = original


def _without_fused(owner: type, original: Callable, note: Callable[[str], None]) -> Callable:
    @functools.wraps(original)
    def initialize(self, *arguments, **keywords):
        if keywords.get("fused"):
            keywords = {**keywords, "fused": None, "foreach": False}
            note(
                f"{owner.__name__}(fused=True) has no kernel on meta: recorded as its unfused "
                "twin, one op at a time for one parameter at a time"
            )
        original(self, *arguments, **keywords)

    return initialize


@contextlib.contextmanager
def noted_autocast(note: Callable[[str], None]) -> Iterator[None]:
    """Notes an autocast that the program asks for. Where there is no card, torch disables that for
    cards, so whether it is on says nothing."""
    owner = torch.amp.autocast_mode.autocast
    original = owner.__init__

    @functools.wraps(original)
    def initialize(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        original(self, device_type, dtype, enabled, cache_enabled)
        if enabled:
            note("autocast does nothing on the meta device: recorded in the tensors' own types")

    owner.__init__ = initialize
    try:
        yield
    finally:
        owner.__init__ = original
