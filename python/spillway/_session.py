# SPDX-License-Identifier: Apache-2.0
"""The functions a program may call. All may be called from any thread."""

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._native import UserError

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counters of this process. docs/statistics.md explains each; sizes are in bytes."""

    mode: str  #: off, record, enforce, fuzz or verify
    budget_bytes: int  #: limit of the device tier
    shared_bytes: int  #: of it, claimed by processes that multiprocessing started from this one
    device_bytes: int  #: resident pool pages now, free and rounding included
    peak_device_bytes: int  #: most they ever were
    peak_live_bytes: int  #: the same without cached free blocks
    floor_bytes: int  #: largest working set of one op (mode record; else 0)
    unmanaged_bytes: int  #: resident besides device_bytes: interpreter, libraries, arrays
    host_bytes: int  #: held in host memory, which a card or an emulated device has below it
    disk_bytes: int  #: spool file in use now
    evicted_bytes: int  #: left the device tier, a copy was made
    clean_evicted_bytes: int  #: left without a copy, since an identical one existed
    fetched_bytes: int  #: came back by a copy
    recalled_bytes: int  #: came back without one: nobody had taken the pages yet
    recomputed_bytes: int  #: came back by running again the ops that made them
    evictions: int  #: copies made on the way out
    fetches: int  #: copies made on the way back
    recalls: int  #: returns without a copy
    recomputations: int  #: returns by running ops again
    recomputing_ns: int  #: time that the program's threads spent on those
    failed_copies: int  #: transfers that ended with an error
    undeclared_writes: int  #: mode verify: writes by ops that do not declare them
    checksums_compared: int  #: mode verify: comparisons made
    io: str  #: how bytes move: io_uring or threads
    pages: str  #: `page pool`, or that the plain arena serves and why
    disk_written_bytes: int  #: taken by the spool file, in whole pages
    disk_read_bytes: int  #: given by the spool file, in whole pages
    overshoot_bytes: int  #: most the budget was ever exceeded by
    rounding_bytes: int  #: resident in used blocks and slabs, but not asked for
    stall_ns: int  #: time that ops and allocations waited for room or data
    mapping_ns: int  #: time that mapping a card's memory held up the program
    elapsed_ns: int  #: since Spillway was loaded
    ops: int  #: outermost operator calls seen
    steps: int  #: repetitions of the training step that were recognised
    stopped_after_step: int  #: since then ops are not watched, as the program fits; 0: they are
    shortages: int  #: ops that did not fit
    short_bytes: int  #: what the last of them was short
    out_of_memory: bool  #: the process ends for that; false while it runs
    last_step_ns: int  #: duration of the last full step
    last_step_moved_bytes: int  #: evicted and fetched in it, clean evictions not counted
    storages: int  #: live ones large enough to move
    top_movers: tuple[tuple[str, int], ...]  #: what moved most: description, bytes

    @classmethod
    def from_json(cls, text: str) -> "Statistics":
        fields = json.loads(text)
        fields["top_movers"] = tuple(
            (mover["name"], mover["moved_bytes"]) for mover in fields["top_movers"]
        )
        return cls(**fields)


def enable(
    budget: str | int | None = None,
    *,
    mode: str | None = None,
    min_size: str | int | None = None,
    start_at: float | None = None,
    **options: Any,
) -> None:
    """Keeps the CPU tensors of this process, or those on a card, within ``budget`` from now on.

    Tensors that exist already are taken in where nothing but Python holds them and no other thread
    runs; else they stay outside, which is said. Addresses that ``data_ptr()`` gave of them before
    are not good any more. The environment (or ``spillway run``) sets what is not named;
    enabling again replaces what was named before.

    Args:
        budget: bytes, ``"12GiB"``, ``"80%"`` of the whole, or ``"auto"``; of a card's memory where
            PyTorch sees one and the budget does not say ``"cpu:12GiB"``.
        mode: ``enforce`` (default), ``record``, ``fuzz``, ``verify`` or ``off``.
        min_size: storages smaller than this never move.
        start_at: share of the budget, 0 to 1, at which eviction begins.
        **options: any other setting of docs/settings.md, in lower case and without
            ``SPILLWAY_``, e.g. ``spool_dir="/mnt/nvme"``.

    Raises:
        UserError: a setting is wrong or cannot be honoured, this process was forked from a managed
            one, or this Python has no PyTorch; nothing has changed then.
    """
    _native.require_torch()
    from spillway import _activation

    named = {"budget": budget, "mode": mode, "min_size": min_size, "start_at": start_at, **options}
    settings = {
        f"SPILLWAY_{name.upper()}": str(value) for name, value in named.items() if value is not None
    }
    try:
        _activation.start(_activation.defaults(settings) | settings)
    except UserError as error:
        raise UserError(_in_keywords(str(error), settings)) from None
    from spillway import _older

    _older.take_in()


def _in_keywords(text: str, named: dict[str, str]) -> str:
    """An error about a variable that the call named, in the words of the call."""
    if not text.startswith(tuple(f"{variable}{end}" for variable in named for end in (" ", ":"))):
        return text
    text = re.sub(r" (?:Else unset|Unset) SPILLWAY_\w+\.$", "", text)
    return re.sub(r"SPILLWAY_([A-Z_]+)", lambda found: found[1].lower(), text)


def disable() -> None:
    """Brings everything back into memory and holds no budget any more."""
    if _native.loaded() is None:
        return
    from spillway import _activation

    _activation.stop()


@contextlib.contextmanager
def budget(limit: str | int, **options: Any) -> Iterator[None]:
    """``with spillway.budget("1GiB"):`` holds the limit inside; former settings return after it.

    Blocks may be nested: the innermost limit holds.
    """
    previous = _native.settings
    awaiting = _native.awaiting_card
    enable(limit, **options)
    from spillway import _activation

    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            pass  # forked inside: nothing is managed here, whatever the settings
        elif previous is not None or awaiting is not None:
            _activation.start(previous or awaiting)  # the block was of the card, too
        else:
            disable()


def stats() -> Statistics:
    """The counters of this process.

    Raises:
        RuntimeError: Spillway was never started here, or waits for the program to use a card.
    """
    library = _native.loaded()
    text = None if library is None else library.statistics()
    if text is not None:
        return Statistics.from_json(text)
    if _native.awaiting_card is not None:
        raise RuntimeError(
            "Spillway is not active yet: the budget is of a graphics card, which this program has "
            "not used so far"
        )
    raise RuntimeError("Spillway is not active: set SPILLWAY_BUDGET or call spillway.enable()")


def reset_peak() -> None:
    """Starts the peaks of ``stats()`` anew from what is in use now."""
    library = _native.loaded()
    if library is not None:
        library.reset_peak()


def keep(*objects: "torch.Tensor | torch.nn.Module") -> None:
    """Never evicts these tensors, or the parameters and buffers of these modules.

    Raises:
        torch.OutOfMemoryError: they do not fit; then none of them is kept.
    """
    _keep(list(_storages(objects)))


def release(*objects: "torch.Tensor | torch.nn.Module") -> None:
    """Undoes ``keep``."""
    _release(list(_storages(objects)))


@contextlib.contextmanager
def resident(*objects: "torch.Tensor | torch.nn.Module") -> Iterator[None]:
    """Keeps these in memory inside the block.

    For code that holds raw pointers while it allocates.
    """
    storages = list(_storages(objects))  # inside, a tensor may be given other memory
    _keep(storages)
    try:
        yield
    finally:
        _release(storages)


def _keep(storages: "list[torch.UntypedStorage]") -> None:
    library = _native.load()
    for count, storage in enumerate(storages):
        try:
            library.keep(storage)
        except BaseException:
            _release(storages[:count])
            raise


def _release(storages: "list[torch.UntypedStorage]") -> None:
    library = _native.load()
    for storage in storages:
        library.release(storage)


def _storages(objects: tuple[Any, ...]) -> "Iterator[torch.UntypedStorage]":
    import torch

    from spillway import _storages

    for item in objects:
        if isinstance(item, torch.nn.Module):
            tensors = [*item.parameters(), *item.buffers()]
        elif isinstance(item, torch.Tensor):
            tensors = [item]
        else:
            raise UserTypeError(item)
        for tensor in tensors:
            storage = _storages.storage_of(tensor)
            if storage is not None:
                yield storage


class UserTypeError(TypeError):
    """Neither a tensor nor a module."""

    def __init__(self, item: object) -> None:
        super().__init__(f"expected tensors or modules, got {type(item).__name__}")
