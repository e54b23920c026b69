# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors that an optimizer updates together, in parts that a card's budget has room for.

A card has kernels for whole lists (``_foreach_*``, ``_fused_*``), which PyTorch's optimizers use by
default there. What such an op is given has to be on the card at once: of Adam all weights,
gradients and both averages. Each tensor is updated by itself, so that in parts every bit is the
same. ``torch.optim`` groups the tensors by device and type before a step, and so does the clipping
of gradients; groups are divided here. (Averages of weights call functions of the program's, which
may want whole lists.)
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from spillway import _native

#: A group's lists have something in common at each index: weight, gradient, states.
Group = tuple[list[list[torch.Tensor | None]], list[int]]

_GROUPS = "_group_tensors_by_device_and_dtype"
# What is left of the room holds what comes next and what just left.
_MOST_OF_ROOM = 8
# Lists that take less stay whole: nothing has to leave for them, and parts are more launches.
_WHOLE_BELOW = 2


def install() -> None:
    """Wraps how tensors are grouped. To be called once."""
    room = RoomOnTheCard()
    optimizer, clipping = torch.optim.Optimizer, torch.nn.utils.clip_grad
    setattr(optimizer, _GROUPS, staticmethod(_dividing(getattr(optimizer, _GROUPS), room)))
    setattr(clipping, _GROUPS, _dividing(getattr(clipping, _GROUPS), room))


def _dividing(original: Callable[..., dict[Any, Group]], room: "RoomOnTheCard"):
    @functools.wraps(original)
    def grouped(*arguments, **keywords):
        groups = original(*arguments, **keywords)
        # The compiler makes kernels of its own of a step, and traces no further here.
        if torch.compiler.is_compiling() or not _native.budget_is_of_a_card():
            return groups
        return DividedGroups(groups, room)

    return grouped


class RoomOnTheCard:
    """What a budget leaves there for tensors. Asked anew where it may matter alone, since steps of
    small networks are short."""

    def __init__(self) -> None:
        self._settings: dict[str, str] | None = None
        self._last = 0

    def is_short(self, needed: int) -> bool:
        """Whether lists of so many bytes are to be divided."""
        if self._settings is not _native.settings or needed * 2 * _WHOLE_BELOW > self._last:
            self._settings, self._last = _native.settings, _room()
        return needed * _WHOLE_BELOW > self._last

    def most_of_a_part(self) -> int:
        return self._last // _MOST_OF_ROOM


class DividedGroups(dict[Any, Group]):
    """Groups by device and type; those on a card that are large come as several, in order."""

    def __init__(self, groups: dict[Any, Group], room: RoomOnTheCard):
        super().__init__(groups)
        self._room = room

    def items(self) -> Iterator[tuple[Any, Group]]:  # type: ignore[override]
        for key, group in super().items():
            device = key[0]  # None: a step that is being compiled
            sizes = _sizes(group) if device is not None and device.type == "cuda" else []
            if self._room.is_short(sum(sizes)):
                for part in _parts(group, sizes, self._room.most_of_a_part()):
                    yield key, part
            else:
                yield key, group

    def values(self) -> Iterator[Group]:  # type: ignore[override]
        for _, group in self.items():
            yield group


def _room() -> int:
    """Bytes of the budget for tensors; more than there are where nothing is limited."""
    from spillway._session import stats

    now = stats()
    limits = now.mode in ("enforce", "verify")
    return max(now.budget_bytes - now.unmanaged_bytes, 0) if limits else sys.maxsize


def _sizes(group: Group) -> list[int]:
    """Bytes at each index, over all lists. A list that the optimizer has no use for is empty."""
    lists, _ = group
    sizes = [0] * max(map(len, lists))
    for each in lists:
        for at, tensor in enumerate(each):
            sizes[at] += 0 if tensor is None else tensor.nbytes
    return sizes


def _parts(group: Group, sizes: list[int], most: int) -> Iterator[Group]:
    """As many at a time as come to `most` bytes, at least one."""
    begin, held = 0, 0
    for at, size in enumerate(sizes):
        if at > begin and held + size > most:
            yield _part(group, begin, at)
            begin, held = at, 0
        held += size
    yield _part(group, begin, len(sizes))


def _part(group: Group, begin: int, end: int) -> Group:
    lists, indices = group
    return [each[begin:end] for each in lists], indices[begin:end]
